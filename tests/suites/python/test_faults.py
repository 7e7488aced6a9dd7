"""Harness faults, with the scripted harness: each settles the Turn once and the next one works (fault-cases.md)."""

import contextlib
import os
import signal

import openai
import pytest

import berth
from berth import MODEL, cause, diagnosed, timeline, until
from conftest import client_of
from events import check_order, text_of
from test_sessions import last_turn, message, settled


def run(client, *what):
    return client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=timeline(*what))


def works_again(client, session_id):
    before = len(client.beta.agents.sessions.turns.list(session_id).data)
    client.beta.agents.sessions.events.create(session_id, events=[message("still there?")])
    until(lambda: len(client.beta.agents.sessions.turns.list(session_id).data) == before + 1, "another Turn exists")
    until(lambda: last_turn(client, session_id).status in ("completed", "failed"), "the next Turn ends")
    assert last_turn(client, session_id).status == "completed"


@pytest.mark.parametrize("fault", [{"exit": 7}, {"exit": 0}, "kill", "close_stdout"], ids=str)
def test_a_harness_that_ends_in_a_turn_fails_it(fast_client, fault):
    session = run(fast_client, {"begin": "I was about to"}, fault)
    until(lambda: last_turn(fast_client, session.id).status == "failed", "the Turn is failed")
    settled(fast_client, session.id)
    works_again(fast_client, session.id)


def test_a_turn_that_the_harness_fails(fast_client):
    session = run(fast_client, {"fail": "no more"})
    until(lambda: last_turn(fast_client, session.id).status == "failed", "the Turn is failed")
    works_again(fast_client, session.id)


def test_lines_that_are_no_frames_are_ignored(fast_client):
    session = run(fast_client, {"raw": "not json"}, {"raw": '{"method": "of/the/future", "params": {}}'}, {"say": "fine"})
    until(lambda: last_turn(fast_client, session.id).status == "completed", "the Turn completes")


def test_a_cancel_that_the_harness_ignores_is_enforced(fast_client):
    session = run(fast_client, {"begin": "deaf"}, "deaf")
    until(lambda: last_turn(fast_client, session.id).status == "in_progress", "the Turn runs")
    fast_client.beta.agents.sessions.events.create(session.id, events=[{"type": "agent.session.input.cancel"}])
    until(lambda: last_turn(fast_client, session.id).status in ("cancelled", "failed"), "the Turn ends although the harness is deaf")
    works_again(fast_client, session.id)


def test_much_output_arrives_whole_and_in_order(fast_client):
    events = list(
        fast_client.beta.agents.sessions.create(
            agent={"model": MODEL}, environment={"type": "openai_hosted"}, stream=True, input=timeline({"flood": {"lines": 2000, "bytes": 100}}, {"say": "done"})
        )
    )
    check_order(events)
    assert text_of(events) == "done"
    deltas = [event.delta for event in events if event.type == "agent.output.command_execution_output.delta"]
    assert sum(len(delta) for delta in deltas) == 2000 * 100


def test_usage_is_counted_once(fast_client):
    session = run(fast_client, {"usage": {"input": 10, "output": 1}}, {"usage": {"input": 20, "output": 2}}, {"say": "x"})
    until(lambda: last_turn(fast_client, session.id).status == "completed", "the Turn completes")
    assert last_turn(fast_client, session.id).usage.total_tokens == 33
    assert fast_client.beta.agents.sessions.retrieve(session.id).usage.total_tokens == 33


@pytest.mark.parametrize("what", ["hang", "deaf"])
def test_an_archived_session_keeps_its_socket_for_the_receipt_of_its_cancel(fast, fast_client, what):
    """D42, SC-10.5: its Turn ends as cancelled, also when the harness must be killed for it; then nothing of it is left."""
    session = run(fast_client, {"begin": "busy"}, what)
    until(lambda: last_turn(fast_client, session.id).status == "in_progress" and fast.processes(session.id), "the Turn runs")
    project = next(project["id"] for project in fast.admin("GET", "/projects")[2]["data"] if project["name"] == "default")
    path = f"/projects/{project}/sessions/{session.id}/archive"
    status, _, archived = fast.admin("POST", path, {"expected_generation": 1})
    assert (status, archived["state"]) == (200, "cleanup_pending"), archived
    until(lambda: last_turn(fast_client, session.id).status in ("cancelled", "failed"), "the Turn ends")
    assert last_turn(fast_client, session.id).status == "cancelled", cause(fast, session.id)
    until(lambda: fast.admin("GET", path)[2]["state"] == "released", "its compute is gone")
    assert not fast.processes(session.id)


def test_a_start_that_the_harness_never_answers_fails_its_turn_and_frees_its_place(tmp_path, start_core):
    """RP-17.1: after 30 s nobody knows; nothing native is left, and the one place is free for the next Session, which waits for
    it: it is not refused at its start, as long as the Run before it is not gone (RP-10.10)."""
    harnesses = berth.scripted_harness(tmp_path / "h", {"ignore": ["turn/start"]})
    server = start_core(harnesses=harnesses, more=["--execution-concurrency", "1"])
    client = client_of(server)
    first = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="one")
    until(lambda: last_turn(client, first.id).status == "in_progress", "it is started")
    second = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="two")
    until(lambda: last_turn(client, first.id).status == "failed", "it is given up")
    assert cause(server, first.id) == "delivery_unknown"
    until(lambda: last_turn(client, second.id).status == "in_progress", "the place is free")
    until(lambda: sum("app-server" in command for command in server.children().values()) == 1, "the first harness is gone")


# What an agent does to the folders that are its own, and why it works no more afterwards, if it does not.
ACTS = {
    "rm -f $CODEX_HOME/config.toml; mkdir -p $CODEX_HOME/config.toml/x": None,
    "rm -f $CODEX_HOME/config.toml; mkfifo $CODEX_HOME/config.toml": None,
    "ln -sf /etc/passwd $CODEX_HOME/config.toml": None,
    "truncate -s 1G $CODEX_HOME/config.toml $CODEX_HOME/huge": None,
    "rm -f $CODEX_HOME/models.json; mkdir $CODEX_HOME/models.json; touch $CODEX_HOME/models.json/x; chmod 0 $CODEX_HOME/models.json": None,
    "chmod 0 $CODEX_HOME": None,
    "chmod 0 $CODEX_HOME/../.. $CODEX_HOME/.. $CODEX_HOME": None,
    "mkfifo $CODEX_HOME/auth.json": None,
    "mkdir $CODEX_HOME/auth.json": None,
    "ln -s /proc/self/mem $CODEX_HOME/auth.json": None,
    "rm -r $CODEX_HOME; ln -s / $CODEX_HOME": "runtime_preparation_failed",
    "rm -r $CODEX_HOME; mkfifo $CODEX_HOME": "runtime_preparation_failed",
    # Its harness still starts there, and nothing can be copied.
    "chmod 0 /workspace": "core_storage_failed",
}


def test_what_an_agent_does_to_its_own_folders_is_its_own_matter(tmp_path, start_core):
    """At worst its Session fails and says why. Neither its daemon nor the Core is harmed, and what is generated is generated again."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(core)
    sessions = {act: run(client, {"run": act}, {"say": "Done."}).id for act in ACTS}
    for act, session in sessions.items():
        until(lambda session=session: last_turn(client, session).status in ("completed", "failed"), act)
    daemons = [pid for session in sessions.values() for pid, command in core.processes(session).items() if "berth daemon" in command]
    assert len(daemons) == len(ACTS)
    for pid in daemons:
        # Harness and daemon start anew with what they find.
        os.kill(pid, signal.SIGKILL)
    for session in sessions.values():
        with contextlib.suppress(openai.APIStatusError):
            client.beta.agents.sessions.events.create(session, events=[message("still there?")])
    for act, session in sessions.items():
        # A preparation that fails makes no Turn.
        turns = 1 if ACTS[act] == "runtime_preparation_failed" else 2
        ends = lambda session=session: [turn.status for turn in client.beta.agents.sessions.turns.list(session) if turn.status in ("completed", "failed")]
        until(lambda: len(ends()) == turns and diagnosed(core, session) == ACTS[act], act)
    works_again(client, settled(client, run(client, {"say": "Another."}).id).id)
