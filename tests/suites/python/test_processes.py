"""`kill -9` of each process below the Core in the middle of a Turn: the Turn fails once with its stored cause, the next one continues
the conversation, and nothing of the old process tree is left (RP-17, operating.md)."""

import os
import re
import signal

import pytest

import berth
from berth import MODEL, cause, diagnosed, script, steps, timeline, until
from conftest import client_of
from test_crashes import said, speaking, spoken
from test_sessions import last_turn, message, settled

DAEMON = re.compile(r"\bberth daemon\b")
SUPERVISOR = re.compile(r"\bberth supervise\b")
HARNESS = re.compile(r"/codex app-server\b")
# The stored cause, and what an operator is told (S-DIA-5).
ENGINE, STREAM = ("engine_failed", "harness_error"), ("event_stream_incomplete", "runtime_disconnected")
CAUSES = {"harness": ENGINE, "supervisor": ENGINE, "daemon": STREAM}


def tree(server, session_id, placement):
    """The processes that serve a Session: of its sandbox, or the Core's own children."""
    return server.processes(session_id) if placement == "openai_hosted" else server.children()


def harness_of(server, session_id, placement):
    found = [pid for pid, command in tree(server, session_id, placement).items() if HARNESS.search(command)]
    assert len(found) == 1, tree(server, session_id, placement)
    return found[0]


def victim(server, session_id, placement, what):
    harness = harness_of(server, session_id, placement)
    if what == "harness":
        return harness
    if what == "supervisor":
        parent = berth.parent(harness)
        assert SUPERVISOR.search(tree(server, session_id, placement)[parent])
        return parent
    (daemon,) = [pid for pid, command in tree(server, session_id, placement).items() if DAEMON.search(command)]
    return daemon


@pytest.mark.parametrize("what", CAUSES)
def test_a_process_that_is_killed_in_a_turn(tmp_path, database, placement, start_core, what):
    server = start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(server)
    text = timeline({"start": "sleep 1000"}, {"begin": "I was about to"}, "hang")
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=text)
    until(lambda: speaking(client, session.id), "the Turn runs")
    # An Item begins before its first words come.
    until(lambda: any(row["delta_of"] for row in server.tables()["events"]), "its words are stored")
    harness = harness_of(server, session.id, placement)
    commands = [pid for pid, command in tree(server, session.id, placement).items() if "sleep 1000" in command]
    assert commands, "the command runs"
    os.kill(victim(server, session.id, placement, what), signal.SIGKILL)

    until(lambda: last_turn(client, session.id).status == "failed", "the Turn is failed")
    assert (cause(server, session.id), diagnosed(server, session.id)) == CAUSES[what]
    partial = said(client, session.id)[0]
    assert (partial.status, spoken(client, session.id)) == ("incomplete", "I was about to")
    until(lambda: not {harness, *commands} & set(tree(server, session.id, placement)), "the old process tree is gone")
    client.beta.agents.sessions.events.create(session.id, events=[message(timeline({"say": "{{history}}"}))])
    settled(client, session.id, turns=2)
    assert last_turn(client, session.id).status == "completed", server.log_tail()
    assert spoken(client, session.id) == "2", "the native conversation was lost"
    assert len(client.beta.agents.sessions.turns.list(session.id).data) == 2


@pytest.mark.parametrize("what", CAUSES)
def test_real_codex_killed_in_a_turn_resumes(start_core, model, placement, what):
    core = start_core()
    client = client_of(core)
    name = f"killed-{placement}-{what}"
    text = script(steps({"say": "The word is heliotrope."}, {"shell": "sleep 1000"}), steps({"hold": name}))
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=text)
    until(lambda: said(client, session.id), "the Turn runs")
    until(lambda: [pid for pid, command in tree(core, session.id, placement).items() if HARNESS.search(command)], "Codex runs")
    os.kill(victim(core, session.id, placement, what), signal.SIGKILL)
    until(lambda: last_turn(client, session.id).status == "failed", "the Turn is failed")
    assert (cause(core, session.id), diagnosed(core, session.id)) == CAUSES[what]
    question = f"what was the word, after {name}?"
    client.beta.agents.sessions.events.create(session.id, events=[message(question)])
    settled(client, session.id, turns=2)
    assert last_turn(client, session.id).status == "completed", core.log_tail()
    asked = [request for request in model.requests() if request["message"] == question]
    assert "heliotrope" in str(asked[-1]["body"]["input"]), "the native conversation was lost"


def test_a_call_without_its_result_does_not_poison_the_session(start_core, model):
    """F08: two calls, the daemon dies after the first result; the model refuses a history in which a call has not exactly one result."""
    core = start_core()
    client = client_of(core)
    text = script(steps({"shell": "echo first-result"}, {"shell": "sleep 1000"}), steps({"say": "never"}))
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=text)

    def commands():
        return {item.status for item in client.beta.agents.sessions.items.list(session.id) if item.type == "command_execution"}

    until(lambda: commands() == {"completed", "in_progress"}, "the first result is there and the second command runs")
    os.kill(victim(core, session.id, "openai_hosted", "daemon"), signal.SIGKILL)
    until(lambda: last_turn(client, session.id).status == "failed", "the Turn is failed")
    question = f"go on after the missing result of {core.port}"
    client.beta.agents.sessions.events.create(session.id, events=[message(question)])
    settled(client, session.id, turns=2)
    assert last_turn(client, session.id).status == "completed", (cause(core, session.id), core.log_tail())
    asked = [request["body"]["input"] for request in model.requests() if request["message"] == question]
    assert len(asked) == 1, "it was asked again and again"
    results = [str(item["output"]) for item in asked[0] if item["type"].endswith("_call_output")]
    assert len(results) == 2, results
    # The second was never given; in which order the harness keeps them is its own business.
    assert len([result for result in results if re.search("abort|interrupt", result)]) == 1 and "reject" not in "".join(results), results
