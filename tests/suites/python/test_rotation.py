"""`berth secrets rotate`: a new service key for everything that is stored, whatever kills it on the way, on both databases (KEY-005)."""

import base64
import os
import signal
import subprocess

import pytest

import berth
from berth import MODEL, until
from conftest import client_of
from test_sessions import settled
from test_skills import folder, names

POINTS = [
    "rotation.key_made", "rotation.former_kept", "rotation.key_switched",
    "RewrapPage.before", "RewrapPage.after", "RewrapPage.after:4", "rotation.rows_moved",
    "rotation.blob_moved", "rotation.blob_moved:2", "rotation.blobs_moved", "rotation.complete",
]


@pytest.fixture
def core(tmp_path, database, start_core):
    return start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))


def rotate(server, *more, point=None):
    command = [berth.BERTH, "secrets", "rotate", "--data-dir", server.folder, *more]
    command += ["--database-url", server.database, "--other-cores-stopped"] if server.database else []
    environment = {**os.environ, "BERTH_CRASH_POINT": point} if point else os.environ
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def fill(server):
    """One of everything that is sealed and can be read back or used."""
    client = client_of(server)
    skill = client.skills.create(files=folder("kept"))
    client.files.create(file=("a.txt", b"x" * 200_000), purpose="user_data")
    content = base64.b64encode(b"inline").decode()
    client.beta.agents.environments.templates.create(env={"A": "b"}, setup_commands=[{"command": "true"}], files=[{"type": "inline", "data": content, "path": "/workspace/a"}])
    vault = client.beta.agents.vaults.create().id
    credential = client.beta.agents.vaults.credentials.create(vault, name="c", auth={"type": "static_bearer", "mcp_server_url": "https://mcp.example", "token": "t"})
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="before")
    settled(client, session.id)
    return skill.id, vault, credential.id, session.id


def works(server, made):
    """Bytes, secrets and the model's key still open: in place, and for the next Turn of an old Session."""
    client = client_of(server)
    skill, vault, credential, session = made
    assert names(client.skills.content.retrieve(skill).read()) == ["skill/SKILL.md"]
    # A replacement opens what it replaces.
    client.beta.agents.vaults.credentials.update(credential, vault_id=vault, auth={"type": "static_bearer", "token": "u"})
    client.beta.agents.sessions.events.create(session, events=[{"type": "agent.session.input.message", "input": [{"role": "user", "content": [{"type": "input_text", "text": "after"}]}]}])
    settled(client, session)
    assert client.beta.agents.sessions.turns.list(session).data[0].status == "completed"


def key_of(server):
    return (server.folder / "credential.key").read_text()


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_rotation_loses_nothing_and_goes_on(core, point):
    made, before = fill(core), key_of(core)
    core.stop()
    killed = rotate(core, point=point)
    assert killed.returncode == -signal.SIGKILL, (killed.stdout, killed.stderr)
    # The Core is at work whatever the rotation had reached; where both keys are there it finishes the work itself.
    core.start()
    works(core, made)
    core.stop()
    done = rotate(core)
    assert done.returncode == 0, done.stderr
    assert key_of(core) != before
    assert not list(core.folder.glob("credential.key.*"))
    core.start()
    works(core, made)


def test_a_core_moves_everything_in_the_background(core):
    made, before = fill(core), key_of(core)
    core.stop()
    begun = rotate(core, "--in-background")
    assert begun.returncode == 0, begun.stderr
    former = core.folder / "credential.key.former"
    assert key_of(core) != before and former.read_text() == before
    core.start()
    works(core, made)
    until(lambda: not former.exists(), "the former key is gone", 30)
    core.stop()
    # What the former key opens is nothing any more: a Core that has only that one does not start.
    new = key_of(core)
    (core.folder / "credential.key").write_text(before)
    command = [berth.BERTH, "serve", "--data-dir", core.folder, "--listen", "127.0.0.1:0"]
    command += ["--database-url", core.database] if core.database else []
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "service key" in refused.stderr, refused.stderr
    (core.folder / "credential.key").write_text(new)
    core.start()
    works(core, made)


def test_a_rotation_beside_a_running_core_is_refused(core):
    before = key_of(core)
    refused = rotate(core)
    assert refused.returncode == 1 and "in use by process" in refused.stderr, refused.stderr
    assert key_of(core) == before and not list(core.folder.glob("credential.key.*"))


def test_a_folder_that_is_none_stays_untouched(tmp_path):
    refused = subprocess.run([berth.BERTH, "secrets", "rotate", "--data-dir", tmp_path / "x"], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "no data folder" in refused.stderr
    assert not (tmp_path / "x").exists()
