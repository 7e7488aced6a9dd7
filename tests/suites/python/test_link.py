"""The link between Core and Runtime under a fault proxy: sockets that drop, freeze and close late (F13, F27, RP-17)."""

import json
import os
import signal
import threading

import pytest

import berth
from berth import MODEL, cause, timeline, until
from conftest import client_of
from events import check_order
from proxy import put_between
from test_crashes import native_starts, speaking, spoken
from test_sessions import last_turn, message, settled


@pytest.fixture
def link(tmp_path, start_core):
    """Makes a Session whose first Turn is over and whose Runtime is reached through a proxy: Core, client, Session, proxy."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(core)
    proxies = []

    def make():
        session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="first")
        settled(client, session.id)
        assert last_turn(client, session.id).status == "completed", (cause(core, session.id), core.log_tail())
        proxies.append(put_between(core, session.id))
        until(lambda: status(client, session) == "connected", "the Environment is connected")
        return core, client, session, proxies[-1]

    yield make
    for proxy in proxies:
        proxy.close()


def status(client, session):
    return client.beta.agents.environments.retrieve(session.environment.id).status


def follow(client, session_id):
    """Everything that a live stream tells until the Session is stopped being followed."""
    got, ready = [], threading.Event()

    def read():
        with client.beta.agents.sessions.events.stream(session_id) as stream:
            ready.set()
            for event in stream:
                got.append(event)

    threading.Thread(target=read, daemon=True).start()
    assert ready.wait(30)
    return got


def test_five_reconnects_in_one_turn(link):
    """F13: one `event_stream_incomplete`, nothing twice, and the conversation goes on."""
    core, client, session, proxy = link()
    events = follow(client, session.id)
    text = timeline({"usage": {"input": 5, "output": 1}}, {"begin": "halfway"}, "hang")
    client.beta.agents.sessions.events.create(session.id, events=[message(text)])
    until(lambda: speaking(client, session.id), "the Turn runs")
    for _ in range(5):
        until(proxy.connected, "the Runtime is connected")
        proxy.drop()
    until(lambda: last_turn(client, session.id).status == "failed", "the Turn is failed")
    assert cause(core, session.id) == "event_stream_incomplete"
    client.beta.agents.sessions.events.create(session.id, events=[message(timeline({"say": "{{history}}"}))])
    settled(client, session.id, turns=3)
    turns = client.beta.agents.sessions.turns.list(session.id, order="asc").data
    assert [turn.status for turn in turns] == ["completed", "failed", "completed"]
    assert turns[1].usage.total_tokens == 6, "usage was counted twice"
    assert len(native_starts(core, text)) == 1
    items = list(client.beta.agents.sessions.items.list(session.id, order="asc"))
    texts = [item.content[0].text for item in items if item.type == "message" and item.role == "assistant"]
    assert texts[1:] == ["halfway", "3"], texts
    created, ended = check_order(until(lambda: events if events and events[-1].type == "agent.session.idle" else None, "the stream tells the end"))
    assert created == ended == {turns[1].id, turns[2].id}


def test_outputs_that_core_has_are_not_sent_again(link):
    """RP-15.20, ART-007 to ART-009: an unchanged file costs no bytes and keeps its Artifact, whatever becomes of the others."""
    core, client, session, proxy = link()
    size = 4 << 20

    def turn(script):
        before = proxy.carried()
        number = len(client.beta.agents.sessions.turns.list(session.id).data) + 1
        client.beta.agents.sessions.events.create(session.id, events=[message(timeline({"run": script}, {"say": "Done."}))])
        settled(client, session.id, turns=number)
        assert last_turn(client, session.id).status == "completed", cause(core, session.id)
        newest = {}
        for artifact in client.beta.agents.sessions.artifacts.list(session.id, order="asc"):
            newest[artifact.path] = artifact
        return proxy.carried() - before, newest

    def content(artifact):
        return client.beta.agents.sessions.artifacts.content(artifact.id, session_id=session.id).read()

    large, small = "/workspace/outputs/large", "/workspace/outputs/deep/small"
    sent, first = turn(f"mkdir -p outputs/deep; head -c {size} /dev/zero >outputs/large; printf one >outputs/deep/small")
    assert sent > size and set(first) == {large, small}
    sent, second = turn("printf two >outputs/deep/small")
    assert sent < size / 4, "what Core has was sent again"
    assert second[large].id == first[large].id and content(second[small]) == b"two"
    # Same size, other bytes; and a file whose Artifact is gone is published anew.
    client.beta.agents.sessions.artifacts.delete(second[small].id, session_id=session.id)
    sent, third = turn("printf x | dd of=outputs/large conv=notrunc 2>/dev/null")
    assert sent > size and third[large].id != first[large].id
    assert content(third[large]) == b"x" + bytes(size - 1) and content(third[small]) == b"two"


def test_silent_links_are_noticed_and_a_late_close_changes_nothing(link):
    """F27: half-open sockets, a newer connection with the same credentials, the close of the older one after it; a daemon that stops."""
    core, client, session, proxy = link()
    _, _, stopped, _ = link()
    (daemon,) = [pid for pid, command in core.processes(stopped.id).items() if "berth daemon" in command]
    before = observed(core, session)
    os.kill(daemon, signal.SIGSTOP)
    try:
        proxy.freeze()
        # Both ends believe in the socket until their heartbeats are missed; then the daemon dials again by itself.
        until(lambda: proxy.connected() and observed(core, session) > before, "the Runtime is back on a newer connection", within=90)
        until(lambda: status(client, stopped) == "disconnected", "missing heartbeats are noticed", within=30)
    finally:
        os.kill(daemon, signal.SIGCONT)
    until(lambda: status(client, session) == status(client, stopped) == "connected", "both are back")
    newer = observed(core, session)
    proxy.drop_frozen()
    for one in (session, stopped):
        client.beta.agents.sessions.events.create(one.id, events=[message(timeline({"say": "{{history}}"}))])
        settled(client, one.id, turns=2)
        assert (last_turn(client, one.id).status, spoken(client, one.id)) == ("completed", "2"), core.log_tail()
    assert status(client, session) == "connected"
    assert observed(core, session) == newer, "the late close was taken for the newer connection's"


def observed(core, session):
    """The generation of the Session's connection, as stored."""
    (row,) = [row for row in core.tables()["environments"] if row["session_id"] == session.id]
    return json.loads(row["body"])["observation"]["generation"]
