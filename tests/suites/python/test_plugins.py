"""The command line of plugins, and one Session on real Codex with the same plugins linked in, as components and as libraries."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

import berth
from berth import MODEL, script, steps
from conftest import client_of
from test_sessions import message, settled

FILES = pathlib.Path(os.environ.get("BERTH_TEST_PLUGINS", berth.ROOT / "target/test-plugins"))
COMPONENTS = {"harness-codex": [], "local": ["--grant", "machine"], "mcp-bindings": []}


def file_of(plugin, transport):
    name = f"{plugin}.wasm" if transport == "component" else f"lib{plugin.replace('-', '_')}.so"
    if not (FILES / name).is_file():
        pytest.skip(f"{name} is not built; `cargo xtask plugins` builds it")
    return FILES / name


def plugin(*words, check=True, timeout=120):
    done = subprocess.run([berth.BERTH, "plugin", *words], capture_output=True, text=True, timeout=timeout)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def listed(folder, *more):
    rows = json.loads(plugin("list", "--json", "--data-dir", folder, *more).stdout)
    return {row["id"]: row for row in rows if row["id"]}, [row for row in rows if row["state"] == "refused"]


def without_chance(value, names):
    """The same JSON with ids numbered in the order in which they appear, and without times."""
    if isinstance(value, dict):
        timeless = {key: part for key, part in value.items() if not re.search(r"(_at|_ms|duration)$", key)}
        return {key: without_chance(part, names) for key, part in timeless.items()}
    if isinstance(value, list):
        return [without_chance(part, names) for part in value]
    if isinstance(value, str):
        pattern = r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"
        return re.sub(pattern, lambda found: names.setdefault(found.group(), f"<{len(names)}>"), value)
    return value


def joined(events):
    """How text is cut into deltas follows from when the model's bytes arrive: neighbours are joined."""
    out = []
    for event in events:
        before = out[-1] if out else {}
        same = event["type"].endswith(".delta") and {**event, "delta": "", "event_id": ""} == {**before, "delta": "", "event_id": ""}
        if same:
            before["delta"] += event["delta"]
        else:
            out.append(dict(event))
    return out


def a_session(server, placement):
    """One Session with two Turns: what its stream and its Items say."""
    client = client_of(server)
    shell = [{"shell": "echo $((6*7)) | tee answer.txt"}] if placement == "openai_hosted" else []
    first = script(*([steps({"think": "Let me look."}, *shell)] if shell else []), steps({"say": "The answer is 42."}))
    events = list(client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=first, stream=True))
    session = next(event.session.id for event in events if event.type == "agent.session.created")
    second = [message(script(steps({"say": "Again."})))]
    client.beta.agents.sessions.events.create(session, events=second)
    settled(client, session, turns=2)
    items = [item.to_dict() for item in client.beta.agents.sessions.items.list(session, order="asc")]
    names = {}
    return without_chance(joined([event.to_dict() for event in events]), names), without_chance(items, names)


@pytest.mark.parametrize("transport", ["component", "library"])
def test_a_session_is_the_same_over_every_transport(core, model, tmp_path, transport, placement):
    folder = tmp_path / "data"
    allow = ["--allow-native-plugins"] if transport == "library" else []
    other = berth.Server(folder, more=allow)
    for name, grants in COMPONENTS.items():
        plugin("install", file_of(name, transport), *grants, "--data-dir", folder, *allow)
    loaded, refused = listed(folder, *allow)
    assert not refused and {row["transport"] for row in loaded.values()} == {"component" if transport == "component" else "native (trusted)"}
    other.start()
    try:
        other.set_default_model(model)
        assert a_session(other, placement) == a_session(core, placement)
    finally:
        other.stop()
    assert "a plugin failed" not in other.log_tail()


def test_the_life_of_a_plugin_file(tmp_path):
    folder = tmp_path / "data"
    component = file_of("local", "component")
    checked = plugin("check", component).stdout
    assert "conformance  passed" in checked and "permission   machine: " in checked

    refused = plugin("install", component, "--data-dir", folder, check=False)
    assert refused.returncode == 1 and "--grant machine" in refused.stderr
    assert not (folder / "plugins/local.wasm").exists()

    plugin("install", component, "--grant", "machine", "--data-dir", folder)
    row = listed(folder)[0]["local"]
    assert (row["transport"], row["permissions"], row["state"]) == ("component", "machine", "ready")
    shown = json.loads(plugin("inspect", "local", "--json", "--data-dir", folder).stdout)
    assert shown["digest"] == row["digest"] and "isolated process tree" in shown["permissions"]["machine"]

    plugin("remove", "local", "--data-dir", folder)
    assert listed(folder)[0]["local"]["transport"] == "built in"
    again = plugin("remove", "local", "--data-dir", folder, check=False)
    assert again.returncode == 1 and "built in" in again.stderr


def test_a_file_that_is_dropped_in_is_found(tmp_path):
    folder = tmp_path / "data"
    (folder / "plugins").mkdir(parents=True)
    folder.chmod(0o700)
    shutil.copy(file_of("mcp-bindings", "component"), folder / "plugins/anything.wasm")
    shutil.copy(file_of("local", "component"), folder / "plugins/local.wasm")
    (folder / "plugins/broken.wasm").write_bytes(b"\0asm")
    shutil.copy(file_of("harness-codex", "library"), folder / "plugins/codex.so")
    loaded, refused = listed(folder)
    assert loaded["mcp-bindings"]["transport"] == "component"
    assert (loaded["local"]["transport"], loaded["harness-codex"]["transport"]) == ("built in", "built in")
    reasons = {pathlib.Path(row["file"]).name: row["reason"] for row in refused}
    assert set(reasons) == {"broken.wasm", "local.wasm", "codex.so"}
    assert "--grant machine" in reasons["local.wasm"] and "--allow-native-plugins" in reasons["codex.so"]


def test_a_native_plugin_needs_the_operators_word(tmp_path):
    library = file_of("mcp-bindings", "library")
    for words in (["check", library], ["install", library, "--data-dir", tmp_path / "data"]):
        refused = plugin(*words, check=False)
        assert refused.returncode == 1 and "--allow-native-plugins" in refused.stderr
    checked = plugin("check", library, "--allow-native-plugins").stdout
    assert "runs with all rights" in checked and "conformance  passed" in checked


def lines_of(page, heading):
    """The commands of the first block behind a heading."""
    return re.search(rf"{heading}.*?\n```\n(.*?)```", page, re.S).group(1)


def as_an_author(lines, folder, data):
    """Runs the lines of a page as they stand there, where nothing of Berth is but the program."""
    if not os.environ.get("BERTH_TEST_WASM"):
        pytest.skip("BERTH_TEST_WASM is not set; `cargo xtask test` knows how components are built here")
    build = dict(line.split("=", 1) for line in os.environ["BERTH_TEST_WASM"].splitlines())
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("CARGO_") and name not in ("RUSTC", "RUSTFLAGS")},
        "PATH": f"{berth.BERTH.parent}:{os.environ['PATH']}",
        # The crates are not published yet.
        "BERTH_SDK": str(berth.ROOT / "plugin-api"),
        "BERTH_DATA_DIR": str(data),
        "CARGO_TARGET_DIR": str(pathlib.Path(build["CARGO_TARGET_DIR"]).with_name("authors")),
    }
    # `cargo test` and a library are for this machine, a component for wasm32: only that needs the variables.
    variables = " ".join(f"'{name}={value}'" for name, value in build.items())
    lines = re.sub(r"berth plugin build(?! --native)", lambda found: f"env {variables} {found.group()}", lines)
    done = subprocess.run(["sh", "-ec", lines], cwd=folder, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    assert "conformance  passed" in done.stdout


# An agent as the template of a harness adapter expects it: a line in, a line out.
AGENT = """#!/bin/sh
[ "$1" = --version ] && echo 1.0.0 && exit
while read -r line; do echo "You said: $line"; done
"""


def answers_in_a_session(data, model):
    """The harness adapter `mine`, as its template is, with such an agent."""
    program = data / "harnesses/mine/1.0.0/node_modules/mine-agent/bin/agent"
    program.parent.mkdir(parents=True)
    program.write_text(AGENT)
    program.chmod(0o755)
    server = berth.Server(data).start()
    try:
        server.set_default_model(model, harness="mine")
        client = client_of(server)
        agent = {"model": MODEL, "x_agents_core": {"harness": "mine"}}
        session = client.beta.agents.sessions.create(agent=agent, environment={"type": "openai_hosted"}, input="Hello, agent.")
        settled(client, session.id)
        items = list(client.beta.agents.sessions.items.list(session.id, order="asc"))
        assert [item.content[0].text for item in items] == ["Hello, agent.", "You said: Hello, agent."]
    finally:
        server.stop()
        berth.end_sandboxes(data)


def test_from_nothing_to_a_running_plugin(tmp_path, model):
    """The lines of the authors' page, in an empty folder, and a Session on what they made."""
    lines = lines_of((berth.ROOT / "plugin-api/docs/README.md").read_text(), "## From nothing to a running plugin")
    assert "berth plugin new" in lines and "berth plugin install" in lines
    as_an_author(lines, tmp_path, tmp_path / "data")
    assert listed(tmp_path / "data")[0]["mine"]["transport"] == "component"
    answers_in_a_session(tmp_path / "data", model)


def made(kind, tmp_path, data, crates=berth.ROOT / "plugin-api"):
    """A plugin of this kind as `berth plugin new` makes it, by the lines of its own README."""
    subprocess.run([berth.BERTH, "plugin", "new", "mine", "--kind", kind, "--sdk", crates], cwd=tmp_path, check=True, timeout=60)
    if crates != berth.ROOT / "plugin-api":
        # What the packaged crates need of each other comes from no registry yet.
        with open(tmp_path / "mine/Cargo.toml", "a") as manifest:
            manifest.write(f'\n[patch.crates-io]\nberth-plugin-contract = {{ path = "{crates}/contract" }}\n')
    as_an_author(lines_of((tmp_path / "mine/README.md").read_text(), "# mine"), tmp_path / "mine", data)
    assert listed(data)[0]["mine"]["transport"] == "component"


def test_a_new_resolver_passes_and_is_loaded(tmp_path):
    made("mcp", tmp_path, tmp_path / "data")


@pytest.fixture
def packaged(tmp_path):
    """The crates of the plugin API as they would be published, and nothing else of the workspace."""
    names = ["contract", "sdk", "kit"]
    chosen = [word for name in names for word in ("-p", f"berth-plugin-{name}")]
    command = ["cargo", "package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir", tmp_path / "packaging", *chosen]
    done = subprocess.run(command, cwd=berth.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in names:
        [archive] = (tmp_path / "packaging/package").glob(f"berth-plugin-{name}-*.crate")
        with tarfile.open(archive) as crate:
            crate.extractall(tmp_path / "unpacked", filter="data")
        (tmp_path / "unpacked" / archive.stem).rename(tmp_path / "unpacked" / name)
    return tmp_path / "unpacked"


def test_a_new_provider_on_the_packaged_crates_serves_a_session(tmp_path, model, packaged):
    """As a component it passes and is loaded; as a library it is chosen and makes the machine of a Session."""
    server = berth.Server(tmp_path / "data", harnesses=berth.scripted_harness(tmp_path / "h"), more=["--allow-native-plugins"])
    made("sandbox", tmp_path, server.folder, packaged)
    as_an_author(
        """
        berth plugin build --native
        berth plugin check libmine.so --allow-native-plugins
        berth plugin install libmine.so --grant machine --allow-native-plugins
        """,
        tmp_path / "mine",
        server.folder,
    )
    assert listed(server.folder, "--allow-native-plugins")[0]["mine"]["transport"] == "native (trusted)"
    server.start()
    try:
        server.set_default_model(model)
        server.cli("provider", "set", "mine")
        client = client_of(server)
        session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="hello")
        settled(client, session.id)
        assert client.beta.agents.sessions.turns.list(session.id).data[0].status == "completed"
        held = server.tables()["allocations"]
        assert [row["provider"] for row in held] == ["mine"]
    finally:
        server.stop()
