"""`kill -9` of what is below the Core at named points of the daemon (`crash_point!` in `host/runtime`).

The daemon kills itself, its supervisors or the harness. No accepted input is lost, no Turn runs twice, the next one works, and nothing
of the Session stays when it is deleted (RP-17.1). Each stop is followed by the check of the whole database (`Server.check`).
"""

import pytest

import berth
from berth import cause, timeline, until
from conftest import client_of
from test_crashes import TERMINAL, create, native_starts
from test_sessions import last_turn, message, settled

# Where the daemon dies, and how the Turn ends: before its start nothing is lost, from its start on nobody knows (RP-17.1).
COMPLETED, BEGUN = {None}, {"delivery_unknown", "event_stream_incomplete"}
DAEMON = {
    "bind": COMPLETED, "open": COMPLETED, "prepared": COMPLETED,
    "start": BEGUN, "started": BEGUN, "events:3": BEGUN, "settled": BEGUN,
}
CAPTURE = {"export": {"artifact_capture_failed"}}
# A process that ends between its preparation and the start is certainly no Turn; one that ends while the short Turn goes well may
# come too late.
BELOW = {
    "prepared": {"preparation_start_failed", "engine_failed"}, "start": {"preparation_start_failed", "engine_failed"},
    "started": {None, "engine_failed"}, "settled": COMPLETED,
}
CASES = [(placement, "daemon", point, ends) for placement in ("openai_hosted", "none") for point, ends in DAEMON.items()]
CASES += [("openai_hosted", "daemon", point, ends) for point, ends in CAPTURE.items()]
CASES += [(placement, victim, point, ends) for placement in ("openai_hosted", "none") for victim in ("supervisor", "harness") for point, ends in BELOW.items()]
TEXT = timeline({"begin": "I am "}, {"sleep_ms": 50}, {"say": "done."})


@pytest.fixture
def core(tmp_path, database, start_core):
    return start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))


def armed(server, point, victim="daemon"):
    """Daemons have no environment of the Core's: they find the point beside their harnesses."""
    server.stop()
    spec = f"daemon.{point}" if victim == "daemon" else f"daemon.{point}@{victim}"
    (server.folder / "harnesses" / "crash-point").write_text(spec)
    server.start()


def happened(server):
    try:
        return [found for place in ("sessions/*/*/state/crashed", "engine-host/crashed") for found in server.folder.glob(place)]
    except FileNotFoundError:
        # A folder that was being made has its final name by now.
        return []


def deleted(server, session):
    """Deletes the Session and waits until nothing of it is left."""
    assert server.raw("DELETE", f"/v1/agents/sessions/{session}")[0] in (200, 404)
    until(lambda: not server.processes(session), "its processes are gone")
    homes = (f"sessions/*/{session}", f"engine-homes/{session}")
    until(lambda: not [found for home in homes for found in server.folder.glob(home)], "its folders are gone")


@pytest.mark.parametrize("placement, victim, point, ends", CASES)
def test_a_kill_below_the_core_loses_and_repeats_nothing(core, placement, victim, point, ends):
    armed(core, point, victim)
    status, _, session = create(core, placement, TEXT)
    assert status == 201, session
    session, client = session["id"], client_of(core)
    until(lambda: happened(core), "the point is reached")
    turns = lambda: client.beta.agents.sessions.turns.list(session, order="asc").data
    until(lambda: (found := turns()) and found[0].status in TERMINAL, "the accepted input is settled")
    assert cause(core, session) in ends, (cause(core, session), core.log_tail())
    assert len(native_starts(core, TEXT)) <= 1, "the Turn was run twice"
    first = turns()[0].status

    client.beta.agents.sessions.events.create(session, events=[message("and the next?")])
    until(lambda: len(found := turns()) == 2 and found[1].status in TERMINAL, "the next Turn ends")
    assert [turn.status for turn in turns()] == [first, "completed"], core.log_tail()
    assert len(native_starts(core, "and the next?")) == 1
    assert len(happened(core)) == 1
    deleted(core, session)


@pytest.mark.parametrize("point", ["initialize", "initialized"])
def test_a_daemon_that_dies_in_the_one_preparation_fails_its_environment(core, point):
    """RP-17.1: what an initialization did is not known once its owner is lost, and it is never made twice."""
    armed(core, point)
    session = create(core)[2]["id"]
    client = client_of(core)
    until(lambda: client.beta.agents.sessions.retrieve(session).status == "failed", "the Environment fails")
    assert client.beta.agents.sessions.turns.list(session).data == [] and native_starts(core) == []
    assert core.raw("POST", f"/v1/agents/sessions/{session}/events", {"events": [message("more")]})[0] == 409
    deleted(core, session)
    # Another Session works at once.
    settled(client, create(core, text="another", key="another")[2]["id"])


@pytest.mark.parametrize("placement", ["openai_hosted", "none"])
@pytest.mark.parametrize("point", ["release", "released"])
def test_a_daemon_that_dies_in_a_release_leaves_nothing(core, placement, point):
    armed(core, point)
    session = create(core, placement)[2]["id"]
    settled(client_of(core), session)
    assert last_turn(client_of(core), session).status == "completed"
    deleted(core, session)
