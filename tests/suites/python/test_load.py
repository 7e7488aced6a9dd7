"""Many clients at once, and commands that race with a start (F18, F21)."""

import threading
import time

import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from test_crashes import native_starts, said, spoken
from test_sessions import last_turn, message, settled

CLIENTS, SECONDS = 64, 5


def test_many_clients_get_no_server_error(tmp_path, start_core):
    """F18: on the embedded store a writer never finds the database busy."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"), more=["--execution-concurrency", "8"])
    end = time.monotonic() + SECONDS
    answers, broken = [], []

    def work(number):
        try:
            body = {"agent": {"model": MODEL}, "environment": {"type": "none"}, "input": f"first of {number}"}
            made = core.raw("POST", "/v1/agents/sessions", body)
            answers.append(made[0])
            path = f"/v1/agents/sessions/{made[2]['id']}"
            for turn in range(1000):
                if time.monotonic() > end:
                    return
                answers.append(core.raw("POST", path + "/events", {"events": [message(f"{turn} of {number}")]})[0])
                for listed in ("/v1/agents/sessions?limit=5", path + "/turns", path + "/items", path):
                    answers.append(core.raw("GET", listed)[0])
                answers.append(core.raw("POST", "/v1/agents", {"model": MODEL})[0])
        except Exception as error:
            broken.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 60)
        assert not thread.is_alive(), "a request was never answered"
    assert not broken, broken[:3]
    assert len(answers) > 10 * CLIENTS
    wrong = {status for status in answers if status not in (200, 201, 202, 409)}
    assert not wrong, wrong


@pytest.mark.parametrize("pause", [0, 0.001, 0.005, 0.02, 0.1, 0.4])
def test_a_cancel_while_the_harness_starts_is_never_lost(tmp_path, start_core, placement, pause):
    """F21: the Turn ends `cancelled` and its work is not done, or the cancel is refused; the end is final."""
    plan = {"start": [{"sleep_ms": 200}]}
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h", plan))
    client = client_of(core)
    text = timeline({"sleep_ms": 3000}, {"say": "done all the same"})
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=text)
    path = f"/v1/agents/sessions/{session.id}/events"
    cancel = {"events": [{"type": "agent.session.input.cancel"}]}
    if placement == "openai_hosted":
        # Its reservation cannot be cancelled: refused with the documented conflict until the Turn exists.
        status, _, answer = core.raw("POST", path, cancel)
        assert status in (202, 409), answer
        until(lambda: last_turn(client, session.id).status == "in_progress", "the Turn exists")
    time.sleep(pause)
    status, _, answer = core.raw("POST", path, cancel)
    assert status == 202, answer
    until(lambda: last_turn(client, session.id).status in ("cancelled", "completed", "failed"), "the Turn ends")
    assert last_turn(client, session.id).status == "cancelled", berth.cause(core, session.id)
    first = last_turn(client, session.id)
    client.beta.agents.sessions.events.create(session.id, events=[message("go on")])
    settled(client, session.id, turns=2)
    assert last_turn(client, session.id).status == "completed"
    assert client.beta.agents.sessions.turns.retrieve(first.id, session_id=session.id) == first, "an end changed"
    assert [spoken(client, session.id), len(said(client, session.id))] == ["You said: go on", 1], "its work was done all the same"
    assert len(native_starts(core, text)) <= 1
