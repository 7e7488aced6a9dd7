"""Plugins are loaded again while the Core runs: what is new takes the new version, what runs keeps its own."""

import json

import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from test_plugins import file_of, plugin
from test_sessions import message, settled


def leb(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def changed(component, target, *replaced, more=""):
    """The same code under another manifest: the last one of a file counts."""
    text = plugin("inspect", component, "--json").stdout
    manifest = berth.ROOT / {"harness": "plugins/harness-codex", "sandbox-provider": "plugins/sandbox-local"}[json.loads(text)["kind"]] / "plugin.toml"
    return written(component, target, manifest.read_text(), *replaced, more=more)


def written(component, target, manifest, *replaced, more=""):
    for before, after in replaced:
        assert before in manifest
        manifest = manifest.replace(before, after)
    name = b"berth-plugin-manifest"
    body = leb(len(name)) + name + (manifest + more).encode()
    target.write_bytes(component.read_bytes() + b"\0" + leb(len(body)) + body)
    return target


@pytest.fixture
def core(tmp_path, start_core):
    """A Core whose adapter and provider are components."""
    folder, harnesses = tmp_path / "data", berth.scripted_harness(tmp_path / "h")
    berth.Server(folder, harnesses=harnesses)
    plugin("install", file_of("harness-codex", "component"), "--data-dir", folder)
    plugin("install", file_of("local", "component"), "--grant", "machine", "--data-dir", folder)
    return start_core(folder=folder)


def listed(core):
    return {row["id"]: row for row in json.loads(core.cli("plugin", "list", "--json").stdout) if row["id"]}


def serving(core, session, role="adapter"):
    """Which plugin serves a Session, as `berth session show` tells."""
    shown = json.loads(core.cli("session", "show", session, "--json").stdout)["diagnostics"]
    return shown.get(role)


def versions(core, session):
    return [(serving(core, session, role) or {}).get("version") for role in ("adapter", "provider")]


def test_what_is_new_takes_the_new_version_and_what_runs_keeps_its_own(core, tmp_path, placement):
    client = client_of(core)

    def create(*steps):
        return client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=timeline(*steps)).id

    old = create({"await_steers": 1}, {"say": "done"})
    until(lambda: serving(core, old), "the adapter is known")
    before = serving(core, old)
    assert (before["id"], before["version"], before["digest"]) == ("harness-codex", "0.1.0", listed(core)["harness-codex"]["digest"])
    assert f"harness-codex 0.1.0, file {before['digest']}" in core.cli("session", "show", old).stdout

    version = ('version = "0.1.0"\nname', 'version = "0.2.0"\nname')
    for name, grants in [("harness-codex", []), ("local", ["--grant", "machine"])]:
        said = plugin("install", changed(file_of(name, "component"), tmp_path / f"{name}.wasm", version), *grants, "--data-dir", core.folder).stdout
        assert "loaded its plugins again" in said
    assert {name: listed(core)[name]["version"] for name in ("harness-codex", "local")} == {"harness-codex": "0.2.0", "local": "0.2.0"}

    def fresh():
        session = create({"say": "hello"})
        settled(client, session)
        return versions(core, session)

    hosted = "0.2.0" if placement == "openai_hosted" else None
    until(lambda: fresh() == ["0.2.0", hosted], "new Sessions are served by the new version")

    client.beta.agents.sessions.events.create(old, events=[message("go on")])
    settled(client, old)
    assert client.beta.agents.sessions.turns.list(old).data[0].status == "completed"
    assert versions(core, old) == ["0.1.0", "0.1.0" if hosted else None]
    # Every Runtime says so at once, beside what runs.
    until(lambda: [group["version"] for group in listed(core)["harness-codex"]["runtimes"]] == ["0.2.0"], "Runtimes offer it")
    # What the old version made goes when its Session goes.
    client.beta.agents.sessions.delete(old)
    if hosted:
        until(lambda: not core.workspace(old), "the workspace is gone")


def test_a_reload_that_takes_away_what_is_used_changes_nothing(core, tmp_path):
    other = changed(file_of("local", "component"), tmp_path / "other.wasm", ('id = "local"', 'id = "other"'))
    plugin("install", other, "--grant", "machine", "--data-dir", core.folder)
    core.cli("provider", "set", "other")

    refused = core.cli("plugin", "remove", "other", check=False)
    assert refused.returncode == 1
    assert "goes on with what it had" in refused.stderr and "'other'" in refused.stderr and "berth provider set" in refused.stderr
    assert core.cli("plugin", "reload", check=False).returncode == 1
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="hello").id
    settled(client, session)
    assert serving(core, session, "provider")["id"] == "other"
    client.beta.agents.sessions.delete(session)
    until(lambda: core.cli("provider", "set", "local", check=False).returncode == 0, "nothing is held any more")
    assert "other" not in core.cli("plugin", "reload").stdout


def test_quarantine_is_shown_and_ends_with_a_reload(core, tmp_path):
    plugin("install", file_of("faulty-provider", "component"), "--grant", "state,clock,http,program", "--program", "helper=/bin/true", "--data-dir", core.folder)
    breaks = tmp_path / "breaks.toml"
    breaks.write_text('operation = "describe"\nfault = "panic"\n')
    for code in ["plugin_crashed"] * 5 + ["plugin_quarantined"]:
        refused = core.cli("provider", "set", "faulty-provider", "--settings", breaks, check=False)
        assert refused.returncode == 1 and code in refused.stderr
    row = listed(core)["faulty-provider"]
    assert row["state"] == "quarantined" and "5 faults" in row["reason"] and "describe" in row["reason"]
    assert row["reason"] in core.cli("plugin", "list").stdout
    core.cli("plugin", "reload")
    assert listed(core)["faulty-provider"]["state"] == "ready"
