"""`kill -9` of the Core at named points, on both databases: no accepted input lost, nothing run twice, the next Turn works.

The points are the units' names with `.before` and `.after` their commit, and the effects between them (`host/store/src/crash.rs`).
"""

import json
import urllib.error

import pytest

import berth
from berth import MODEL, until
from conftest import client_of
from test_sessions import last_turn, message, settled

POINTS = [
    "CreateSession.before", "CreateSession.after",
    "ReserveAllocation.before", "ReserveAllocation.after", "provider_create.sent",
    "CompleteInit.after",
    "Promote.before", "Promote.after",
    "execution_start.sent",
    "AppendRun.before", "AppendRun.after",
    "SettleRun.before", "SettleRun.after",
    "FinishTurn.before", "FinishTurn.after", "settle_run.answered",
]
RELEASE = ["DeleteSession.before", "DeleteSession.after", "release.closed", "provider_kill.sent", "SweepDeleted.before", "SweepDeleted.after"]
TERMINAL = ("completed", "failed", "cancelled")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    return request.getfixturevalue("postgres") if request.param == "postgres" else None


@pytest.fixture
def core(tmp_path, database, model):
    server = berth.Server(tmp_path / "data", database=database, harnesses=berth.scripted_harness(tmp_path / "h")).start()
    server.set_default_model(model)
    yield server
    server.stop()


def armed(server, point):
    server.stop()
    server.start(BERTH_CRASH_POINT=point)


def create(server):
    body = {"agent": {"model": MODEL}, "environment": {"type": "openai_hosted"}, "input": "the only input"}
    return server.raw("POST", "/v1/agents/sessions", body, headers={"idempotency-key": "crash"})


def died(server, within=20):
    until(lambda: server.process.poll() is not None, "the Core dies at the point", within)
    assert server.process.returncode == -9, server.log_tail()


def native_starts(server, session_id):
    logs = list(server.workspace(session_id).rglob("requests.jsonl"))
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if line["method"] == "turn/start" and line["message"] == "the only input"]


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_loses_and_repeats_nothing(core, point):
    armed(core, point)
    try:
        create(core)
    except (urllib.error.URLError, ConnectionError, OSError):
        # The answer was lost with the Core; the same retry identity finds or makes the one Session.
        pass
    died(core)
    core.start()
    status, _, session = create(core)
    assert status == 201, session
    client = client_of(core)
    assert len(client.beta.agents.sessions.list().data) == 1, "one retry identity made two Sessions"
    until(lambda: last_turn(client, session["id"]).status in TERMINAL, "the accepted input is settled")
    turns = client.beta.agents.sessions.turns.list(session["id"]).data
    assert len(turns) == 1
    assert len(native_starts(core, session["id"])) <= 1, "the Turn was run twice"
    first = turns[0].status

    client.beta.agents.sessions.events.create(session["id"], events=[message("and the next?")])
    settled(client, session["id"], turns=2)
    after = client.beta.agents.sessions.turns.list(session["id"], order="asc").data
    assert [turn.status for turn in after] == [first, "completed"]


@pytest.mark.parametrize("point", ["BeginInit.after", "runtime_prepare.sent", "CompleteInit.before"])
def test_a_crash_inside_the_preparation_fails_the_environment(core, point):
    # Whether a step took effect is unknown, so nothing is repeated: the input is settled, not run (SC-8.5, ENV-376).
    armed(core, point)
    session = create(core)[2]
    died(core)
    core.start()
    client = client_of(core)
    until(lambda: client.beta.agents.sessions.retrieve(session["id"]).status == "failed", "the Session shows the failure")
    assert create(core)[0] == 201, "the retry identity still finds it"
    assert client.beta.agents.environments.retrieve(session["environment"]["id"]).status == "failed"
    assert client.beta.agents.sessions.turns.list(session["id"]).data == [], "nothing ran"
    body = {"events": [message("again")]}
    assert core.raw("POST", f"/v1/agents/sessions/{session['id']}/events", body)[0] == 409
    assert core.raw("DELETE", f"/v1/agents/sessions/{session['id']}")[0] == 200


@pytest.mark.parametrize("point", RELEASE)
def test_a_crash_in_a_release_leaves_nothing(core, point):
    session = create(core)[2]
    client = client_of(core)
    settled(client, session["id"])
    folder = core.workspace(session["id"])
    armed(core, point)
    try:
        core.raw("DELETE", f"/v1/agents/sessions/{session['id']}")
    except (urllib.error.URLError, ConnectionError, OSError):
        pass
    died(core)
    core.start()
    assert core.raw("DELETE", f"/v1/agents/sessions/{session['id']}")[0] in (200, 404)
    until(lambda: not folder.exists(), "the folder is gone")
    until(lambda: not core.processes(session["id"]), "the processes are gone")
