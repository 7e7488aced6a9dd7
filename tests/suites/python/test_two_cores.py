"""Two Cores of one PostgreSQL database, each with a data folder of its own: what one of them has on its machine is its own."""

import json
import shutil
import subprocess

import pytest

import berth
from berth import MODEL, until
from conftest import client_of
from test_sessions import last_turn, message, settled

SHARED = ("installation-id", "credential.key", "core-key", "api-key")


@pytest.fixture
def cores(tmp_path, postgres, start_core):
    harnesses = berth.scripted_harness(tmp_path / "h")
    first = start_core(postgres, harnesses=harnesses, folder=tmp_path / "one")
    folder = tmp_path / "two"
    folder.mkdir(mode=0o700)
    for name in SHARED:
        shutil.copy2(first.folder / name, folder / name)
    return first, beside(first, start_core(postgres, harnesses=harnesses, folder=folder))


def beside(first, second):
    """What one accepts the other may store."""
    second.ledger = first.ledger
    return second


def create(server, placement):
    body = {"agent": {"model": MODEL}, "environment": {"type": placement}, "input": "hello"}
    status, _, session = server.raw("POST", "/v1/agents/sessions", body)
    assert status == 201, session
    client = client_of(server)
    settled(client, session["id"])
    assert last_turn(client, session["id"]).status == "completed"
    return session["id"]


def allocation(server, session):
    return next(row for row in server.tables()["allocations"] if row["session_id"] == session)


def phase(server, session):
    return allocation(server, session)["phase"]


def observation(server, session):
    return json.loads(allocation(server, session)["body"]).get("observation")


def test_another_core_leaves_alone_what_it_cannot_see(cores):
    first, second = cores
    kept, deleted, talk = create(first, "openai_hosted"), create(first, "openai_hosted"), create(first, "none")
    inside = first.processes(deleted)
    folder = first.workspace(deleted)
    first.stop()

    # The other one executes now, with compute and a shared Runtime of its own.
    client = client_of(second)
    own = create(second, "openai_hosted")
    assert second.raw("DELETE", f"/v1/agents/sessions/{deleted}")[0] == 200
    client.beta.agents.sessions.events.create(talk, events=[message("and the next?")])
    create(second, "none")
    assert second.raw("DELETE", f"/v1/agents/sessions/{own}")[0] == 200
    # Whatever it does with its own it would have done with the others by then.
    until(lambda: second.workspace(own) is None, "its own is removed at once")
    until(lambda: phase(second, own) == "released", "and given back")
    assert folder.exists() and first.processes(deleted) == inside, "a sandbox of another machine was taken for gone"
    assert phase(second, deleted) == "releasing"
    assert observation(second, kept) is None, "a sandbox of another machine was taken for lost"
    assert last_turn(client, talk).status == "queued", "a lost history was made up for"
    second.stop()

    # What waited goes on where it is.
    first.start()
    client = client_of(first)
    until(lambda: not folder.exists() and not first.processes(deleted), "the deleted Session's compute is gone")
    settled(client, talk, turns=2)
    assert last_turn(client, talk).status == "completed"
    client.beta.agents.sessions.events.create(kept, events=[message("still there?")])
    settled(client, kept, turns=2)
    assert last_turn(client, kept).status == "completed"


def test_a_copied_data_folder_is_refused_until_it_is_said_what_it_is(tmp_path, postgres, start_core):
    first = start_core(postgres, harnesses=berth.scripted_harness(tmp_path / "h"))
    copy = tmp_path / "copy"
    copy.mkdir(mode=0o700)
    for name in (*SHARED, "owner-id", "owner-place"):
        shutil.copy2(first.folder / name, copy / name)
    command = [berth.BERTH, "serve", "--data-dir", copy, "--listen", "127.0.0.1:0", "--database-url", postgres]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert refused.returncode != 0 and "owner-id" in refused.stderr, refused.stderr
    (copy / "owner-id").unlink()
    beside(first, start_core(postgres, harnesses=tmp_path / "h", folder=copy))
    create(first, "none")
