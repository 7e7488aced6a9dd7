"""`kill -9` at one point after the other on one Core: compute that is made and given back, recovery itself, and what expires.

As `test_crashes.py`, without anything that depends on the version of the SDK. Each point is armed by a start of its own; what the crash left is
settled before the next one.
"""

import contextlib
import json
import sqlite3

import pytest

import berth
from berth import until
from conftest import client_of
from test_crashes import TERMINAL, armed, core, create, died, goes_on, native_starts, unless_it_dies
from test_sessions import last_turn, settled

MAKING = ["BeginCreate.before", "RecordAllocation.before", "RecordAllocation.after", "ObserveConnection.before", "ObserveConnection.after"]
GIVING_BACK = {
    "openai_hosted": ["FinishRelease.before", "FinishRelease.after"],
    "none": ["DeleteSession.before", "DeleteSession.after", "AckRelease.before", "AckRelease.after", "SweepDeleted.before", "SweepDeleted.after"],
}


def again(core, key, placement="openai_hosted"):
    """The Session of a retry identity, made now if the crash came before its commit."""
    body = {"agent": {"model": berth.MODEL}, "environment": {"type": placement}, "input": key}
    return core.raw("POST", "/v1/agents/sessions", body, headers={"idempotency-key": key})


def test_compute_is_made_once_whenever_the_core_dies(core):
    for point in MAKING:
        armed(core, point)
        unless_it_dies(again, core, point)
        died(core)
        core.start()
        session = again(core, point)[2]["id"]
        client = client_of(core)
        settled(client, session)
        assert last_turn(client, session).status == "completed", point
        assert len(native_starts(core, point)) == 1, point
        made = [row for row in core.tables()["allocations"] if row["session_id"] == session]
        assert len(made) == 1, point


def test_a_create_that_was_never_made_is_settled(core):
    # Whether it was sent is unknown to the next owner, so it is never sent again (SP-4.3); its name proves that it cannot land.
    armed(core, "BeginCreate.after")
    unless_it_dies(again, core, "lost")
    died(core)
    core.start()
    session = again(core, "lost")[2]
    client = client_of(core)
    until(lambda: client.beta.agents.sessions.retrieve(session["id"]).status == "failed", "the Session shows the failure")
    assert client.beta.agents.environments.retrieve(session["environment"]["id"]).status == "failed"
    assert client.beta.agents.sessions.turns.list(session["id"]).data == [], "nothing ran"
    until(lambda: [row["phase"] for row in core.tables()["allocations"]] == ["released"], "its place is free")
    assert core.workspace(session["id"]) is None
    following = again(core, "the next one")[2]["id"]
    settled(client, following)
    assert last_turn(client, following).status == "completed"


@pytest.mark.parametrize("placement", GIVING_BACK)
def test_everything_is_given_back_whenever_the_core_dies(core, placement):
    for point in GIVING_BACK[placement]:
        session = again(core, point, placement)[2]["id"]
        settled(client_of(core), session)
        places = [path for path in core.folder.rglob(f"*{session}*")]
        assert places, "it has a place"
        armed(core, point)
        unless_it_dies(core.raw, "DELETE", f"/v1/agents/sessions/{session}")
        died(core)
        core.start()
        assert core.raw("DELETE", f"/v1/agents/sessions/{session}")[0] in (200, 404), point
        until(lambda: not any(path.exists() for path in places), f"its places are gone after {point}")
        until(lambda: not core.processes(session), "the processes are gone")
        until(lambda: not owed(core, session), "nothing is owed")


def owed(core, session):
    tables = core.tables()
    live = [row for row in tables["allocations"] if row["session_id"] == session and row["phase"] != "released"]
    return live + [row for row in tables["bindings"] if row["session_id"] == session and row["release_owed"]]


@pytest.mark.parametrize("placement", ["openai_hosted", "none"])
def test_a_recovery_that_dies_is_done_by_the_next(core, placement):
    armed(core, "execution_start.sent")
    unless_it_dies(create, core, placement)
    died(core)
    for point in ("RecoverSession.before", "RecoverSession.after"):
        core.log.close()
        with contextlib.suppress(AssertionError):
            # It may die before it says that it is ready.
            core.start(BERTH_CRASH_POINT=point)
        died(core)
    core.start()
    session = create(core, placement)[2]["id"]
    client = client_of(core)
    until(lambda: last_turn(client, session).status in TERMINAL, "the Turn is settled")
    assert last_turn(client, session).status == "failed"
    assert len(client.beta.agents.sessions.turns.list(session).data) == 1
    assert len(native_starts(core)) <= 1
    if placement == "openai_hosted":
        goes_on(core, client, session)


def test_what_has_expired_stays_so_whenever_the_core_dies(core):
    for point in ("ExpireReservation.before", "ExpireReservation.after"):
        armed(core, "ReserveAllocation.before")
        unless_it_dies(again, core, point)
        died(core)
        make_due(core)
        with contextlib.suppress(AssertionError):
            core.start(BERTH_CRASH_POINT=point)
        died(core)
        core.start()
        session = again(core, point)[2]["id"]
        client = client_of(core)
        until(lambda: [row["state"] for row in core.tables()["reservations"] if row["session_id"] == session] == ["expired"], "it is settled")
        assert client.beta.agents.sessions.turns.list(session).data == [], "nothing ran"
        client.beta.agents.sessions.events.create(session, events=[{"type": "agent.session.input.message", "input": [{"role": "user", "content": [{"type": "input_text", "text": "now"}]}]}])
        settled(client, session)
        assert last_turn(client, session).status == "completed"


def make_due(core):
    """Five minutes pass for what waits."""
    for row in core.tables()["reservations"]:
        if row["state"] != "pending":
            continue
        body = json.loads(row["body"])
        five = 300_000
        for name in ("created_at", "deadline"):
            if isinstance(body.get(name), int):
                body[name] -= five
        values = (row["deadline"] - five, json.dumps(body), row["id"])
        if core.database:
            core._psql("update reservations set deadline = {}, body = '{}' where id = '{}'".format(values[0], values[1].replace("'", "''"), values[2]))
        else:
            with contextlib.closing(sqlite3.connect(core.folder / "berth.db")) as database, database:
                database.execute("update reservations set deadline = ?, body = ? where id = ?", values)
