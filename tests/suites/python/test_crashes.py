"""`kill -9` of the Core at named points, on both databases: no accepted input lost, nothing run twice, the next Turn works.

The points are the units' names with `.before` and `.after` their commit, and the effects between them (`host/store/src/crash.rs`). Each stop,
planned or not, is followed by the check of the whole database (`Server.check`).
"""

import json
import urllib.error

import openai
import pytest

import berth
from berth import MODEL, cause, timeline, until
from conftest import client_of
from test_sessions import last_turn, message, settled

HOSTED = [
    "CreateSession.before", "CreateSession.after",
    "ReserveAllocation.before", "ReserveAllocation.after", "provider_create.sent",
    "CompleteInit.after",
    "Promote.before", "Promote.after",
    "execution_start.sent",
    "AppendRun.before", "AppendRun.after",
    "SettleRun.before", "SettleRun.after", "workspace_export.sent",
    "FinishTurn.before", "FinishTurn.after", "settle_run.answered",
]
NONE = [
    "CreateSession.before", "CreateSession.after",
    "PutSharedDevice.before", "PutSharedDevice.after",
    "BindDevice.before", "BindDevice.after",
    "ClaimTurn.before", "ClaimTurn.after", "execution_start.sent",
    "AppendRun.before", "AppendRun.after",
    "FinishTurn.before", "FinishTurn.after",
]
POINTS = [("openai_hosted", point) for point in HOSTED] + [("none", point) for point in NONE]
LATER = ["AdmitInput.before", "AdmitInput.after", "run_input.sent", "ConfirmInput.before", "ConfirmInput.after"]
CANCEL = ["AdmitInput.before", "AdmitInput.after", "run_cancel.sent", "FinishTurn.before", "FinishTurn.after"]
RELEASE = ["DeleteSession.before", "DeleteSession.after", "release.closed", "provider_kill.sent", "SweepDeleted.before", "SweepDeleted.after"]
TERMINAL = ("completed", "failed", "cancelled")
# Other creations: how one is made under a key, and where it is listed.
MAKERS = {
    "CreateAgent": (lambda client, headers: client.beta.agents.create(model=MODEL, extra_headers=headers), lambda client: client.beta.agents.list()),
    "CreateVault": (lambda client, headers: client.beta.agents.vaults.create(extra_headers=headers), lambda client: client.beta.agents.vaults.list()),
    "CreateTemplate": (
        lambda client, headers: client.beta.agents.environments.templates.create(name="t", extra_headers=headers),
        lambda client: client.beta.agents.environments.templates.list(),
    ),
    "CreateFile": (lambda client, headers: client.files.create(file=("a.txt", b"x"), purpose="user_data", extra_headers=headers), lambda client: client.files.list()),
    "CreateSkill": (
        lambda client, headers: client.skills.create(files=[("s/SKILL.md", b"---\nname: a\ndescription: b\n---", "text/markdown")], extra_headers=headers),
        lambda client: client.skills.list(),
    ),
}


@pytest.fixture
def core(tmp_path, database, start_core):
    return start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))


def armed(server, point):
    server.stop()
    server.start(BERTH_CRASH_POINT=point)


def create(server, placement="openai_hosted", text="the only input", key="crash"):
    body = {"agent": {"model": MODEL}, "environment": {"type": placement}, "input": text}
    return server.raw("POST", "/v1/agents/sessions", body, headers={"idempotency-key": key})


def unless_it_dies(request, *arguments):
    """The answer, or nothing when it was lost with the Core."""
    try:
        return request(*arguments)
    except (urllib.error.URLError, ConnectionError, OSError):
        return None


def died(server, within=20):
    until(lambda: server.process.poll() is not None, "the Core dies at the point", within)
    assert server.process.returncode == -9, server.log_tail()
    server.check()


def native_starts(server, text="the only input"):
    logs = list(server.folder.rglob("requests.jsonl"))
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [line for line in lines if line["method"] in ("turn/start", "turn/steer") and line["message"] == text]


@pytest.mark.parametrize("placement, point", POINTS)
def test_a_crash_loses_and_repeats_nothing(core, placement, point):
    armed(core, point)
    # If the answer is lost with the Core, the same retry identity finds or makes the one Session.
    unless_it_dies(create, core, placement)
    died(core)
    core.start()
    status, _, session = create(core, placement)
    assert status == 201, session
    client = client_of(core)
    assert len(client.beta.agents.sessions.list().data) == 1, "one retry identity made two Sessions"
    until(lambda: last_turn(client, session["id"]).status in TERMINAL, "the accepted input is settled")
    turns = client.beta.agents.sessions.turns.list(session["id"]).data
    assert len(turns) == 1
    assert len(native_starts(core)) <= 1, "the Turn was run twice"
    first = turns[0].status

    client.beta.agents.sessions.events.create(session["id"], events=[message("and the next?")])
    until(lambda: len(ended := client.beta.agents.sessions.turns.list(session["id"]).data) == 2 and ended[0].status in TERMINAL, "the next Turn ends")
    after = client.beta.agents.sessions.turns.list(session["id"], order="asc").data
    assert [turn.status for turn in after] == [first, "completed"]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("unit", MAKERS)
def test_a_crash_keeps_a_key_and_its_resource_together(core, unit, moment):
    """F20: whichever side of the commit the kill hits, the retry answers one resource."""
    make, resources = MAKERS[unit]
    armed(core, f"{unit}.{moment}")
    with pytest.raises(openai.APIConnectionError):
        make(client_of(core), {"idempotency-key": "crash"})
    died(core)
    core.start()
    client = client_of(core)
    there = [one.id for one in resources(client).data]
    assert len(there) == (1 if moment == "after" else 0)
    made = make(client, {"idempotency-key": "crash"})
    assert made.id == make(client, {"idempotency-key": "crash"}).id
    assert [one.id for one in resources(client).data] == [made.id]
    assert there in ([], [made.id])


@pytest.mark.parametrize("placement", ["openai_hosted", "none"])
@pytest.mark.parametrize("point", LATER)
def test_a_crash_around_a_message_that_joins_a_turn(core, placement, point):
    armed(core, point)
    session = create(core, placement, timeline({"begin": "on"}, {"await_steers": 1}, {"sleep_ms": 300}, {"say": "heard"}))[2]["id"]
    client = client_of(core)
    until(lambda: speaking(client, session), "the Turn runs")
    unless_it_dies(core.raw, "POST", f"/v1/agents/sessions/{session}/events", {"events": [message("a second thought")]})
    died(core)
    core.start()
    until(lambda: last_turn(client, session).status in TERMINAL, "the Turn is settled")
    assert last_turn(client, session).status == "failed"
    assert cause(core, session) == "execution_interrupted"
    assert len(native_starts(core, "a second thought")) <= 1, "the message was sent twice"
    goes_on(core, client, session)


@pytest.mark.parametrize("placement", ["openai_hosted", "none"])
@pytest.mark.parametrize("point", CANCEL)
def test_a_crash_around_a_cancel(core, placement, point):
    armed(core, point)
    session = create(core, placement, timeline({"begin": "on"}, "hang"))[2]["id"]
    client = client_of(core)
    until(lambda: speaking(client, session), "the Turn runs")
    unless_it_dies(core.raw, "POST", f"/v1/agents/sessions/{session}/events", {"events": [{"type": "agent.session.input.cancel"}]})
    died(core)
    core.start()
    until(lambda: last_turn(client, session).status in TERMINAL, "the Turn is settled")
    # After its commit the end is final; before, the new owner settles the Turn.
    assert last_turn(client, session).status == ("cancelled" if point == "FinishTurn.after" else "failed")
    goes_on(core, client, session)


def said(client, session):
    return [item for item in client.beta.agents.sessions.items.list(session) if item.type == "message" and item.role == "assistant"]


def speaking(client, session):
    """The agent is in the middle of a message."""
    items = said(client, session)
    return items and items[0].status == "in_progress"


def spoken(client, session):
    """The newest text of the agent, as far as it has come."""
    items = said(client, session)
    return "".join(part.text for part in items[0].content) if items else None


def goes_on(core, client, session):
    client.beta.agents.sessions.events.create(session, events=[message("and the next?")])
    settled(client, session, turns=2)
    assert last_turn(client, session).status == "completed", core.log_tail()


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
    unless_it_dies(core.raw, "DELETE", f"/v1/agents/sessions/{session['id']}")
    died(core)
    core.start()
    assert core.raw("DELETE", f"/v1/agents/sessions/{session['id']}")[0] in (200, 404)
    until(lambda: not folder.exists(), "the folder is gone")
    until(lambda: not core.processes(session["id"]), "the processes are gone")
