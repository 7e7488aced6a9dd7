"""Restarts of the Core, of the daemon, of both: history and work survive (ENV-067, RP-10.19, OPS-145)."""

import contextlib
import json
import os
import re
import signal
import threading
import time

import pytest

import berth
from berth import MODEL, cause, script, steps, timeline, until
from conftest import client_of
from test_sessions import last_turn, message, settled


@pytest.fixture
def own_core(database, start_core):
    """A Core of its own on each database, with real Codex."""
    return start_core(database)


def daemons(server):
    everywhere = {**server.processes(), **server.children()}
    return [pid for pid, command in everywhere.items() if re.search(r"\bberth daemon\b", command)]


def restart_core(server):
    server.stop()
    server.start()


def kill_core(server):
    server.kill()
    server.start()


def kill_daemon(server):
    found = daemons(server)
    assert found, "there is no daemon to kill"
    for pid in found:
        os.kill(pid, signal.SIGKILL)


def kill_both(server):
    found = daemons(server)
    server.kill()
    for pid in found:
        # The shared Runtime has gone with its Core.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server.start()


@pytest.mark.parametrize("break_it", [restart_core, kill_core, kill_daemon, kill_both], ids=lambda f: f.__name__)
def test_the_conversation_goes_on(own_core, model, placement, break_it):
    client = client_of(own_core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input="remember periwinkle")
    settled(client, session.id)
    break_it(own_core)
    client = client_of(own_core)
    question = f"which word, after {break_it.__name__} with {placement} at {own_core.port}?"
    client.beta.agents.sessions.events.create(session.id, events=[message(question)])
    settled(client, session.id, turns=2)
    turn = last_turn(client, session.id)
    assert turn.status == "completed", (turn, own_core.log_tail())
    asked = [request for request in model.requests() if request["message"] == question]
    assert asked and "periwinkle" in str(asked[-1]["body"]["input"])


@pytest.mark.parametrize("restart", [restart_core, kill_core], ids=lambda f: f.__name__)
def test_delete_after_a_restart_leaves_no_home(tmp_path, database, start_core, restart):
    """The shared Runtime is started to keep what it owes, although no Session has work for it (RP-8.5)."""
    server = start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(server)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="one")
    settled(client, session.id)
    home = server.folder / "engine-homes" / session.id
    assert home.exists(), list((server.folder / "engine-homes").iterdir())
    restart(server)
    client_of(server).beta.agents.sessions.delete(session.id)
    until(lambda: not home.exists(), "the private home is gone")


def test_a_core_that_dies_in_a_turn_settles_it_once(own_core, model):
    """The Turn is over as `execution_interrupted`, nothing is asked twice, the next one works (SC-10.1, RP-17)."""
    client = client_of(own_core)
    name = f"die-{own_core.port}"
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=script(steps({"hold": name}, {"say": "late"})))
    model.until_holding(name)
    asked = len(model.requests())
    own_core.kill()
    own_core.start()
    client = client_of(own_core)
    until(lambda: last_turn(client, session.id).status == "failed", "the interrupted Turn is settled")
    assert last_turn(client, session.id).error.code == "internal_error"
    assert cause(own_core, session.id) == "execution_interrupted"
    model.release(name)
    settled(client, session.id)
    client.beta.agents.sessions.events.create(session.id, events=[message("and now?")])
    until(lambda: last_turn(client, session.id).status == "completed", "the next Turn completes")
    assert len([request for request in model.requests()[asked:] if "hold" in request["message"]]) == 0, "the Turn was run twice"


def test_an_idle_executor_is_closed_and_resumed(tmp_path, start_core):
    server = start_core(harnesses=berth.scripted_harness(tmp_path / "h"), more=["--executor-idle-seconds", "1"])
    client = client_of(server)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="one")
    settled(client, session.id)
    until(lambda: not any("app-server" in command for command in server.processes(session.id).values()), "the harness process is closed", within=20)
    client.beta.agents.sessions.events.create(session.id, events=[message(timeline({"say": "{{history}}"}))])
    settled(client, session.id, turns=2)
    said = [item for item in client.beta.agents.sessions.items.list(session.id) if item.type == "message" and item.role == "assistant"]
    assert said[0].content[0].text == "2", "the history was not resumed"
    requests = next(server.workspace(session.id).rglob("requests.jsonl")).read_text().splitlines()
    assert len({json.loads(line)["pid"] for line in requests}) == 2, "it was the same process"


def test_a_harness_that_is_away_for_a_while_only_delays_its_sessions(tmp_path, start_core):
    """A Runtime that comes back without the harness is not turned away for good; the Turn begins when the harness is there again."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="first").id
    settled(client, session)
    here, away = core.folder / "harnesses" / "codex", tmp_path / "away"
    here.rename(away)
    # The daemon looks every five seconds, and greets the new Core without the harness.
    time.sleep(7)
    core.stop()
    core.start()
    sending = threading.Thread(target=lambda: client.beta.agents.sessions.events.create(session, events=[message("second")]))
    sending.start()
    time.sleep(3)
    assert len(client.beta.agents.sessions.turns.list(session).data) == 1, "a Turn began without its harness"
    away.rename(here)
    sending.join(60)
    assert not sending.is_alive(), (core.log_tail(), [log.read_text()[-3000:] for log in core.folder.rglob("daemon.log")])
    settled(client, session, turns=2)
    assert last_turn(client, session).status == "completed", core.log_tail()
