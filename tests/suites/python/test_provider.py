"""The deployment's one sandbox provider: shown, chosen, cleared, while the Core runs (SP-2.1 to SP-2.3, SP-2.7)."""

import json

import openai
import pytest

import berth
from berth import MODEL, script, steps
from conftest import client_of
from test_plugins import file_of, plugin
from test_sessions import settled


@pytest.fixture
def core(tmp_path, database, start_core):
    folder = tmp_path / "data"
    server = berth.Server(folder, database=database, harnesses=berth.scripted_harness(tmp_path / "h"))
    plugin("install", file_of("faulty-provider", "component"), "--grant", "state,clock", "--data-dir", folder)
    return start_core(database, folder=folder)


def shown(core):
    return json.loads(core.cli("provider", "show", "--json").stdout)


def put(core, generation, provider, **more):
    status, _, answer = core.admin("PUT", "/sandbox-provider", {"expected_generation": generation, "provider": provider, **more})
    return status, answer


def hosted(core):
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="hello")
    settled(client, session.id)
    return session.id


def test_the_provider_is_cleared_and_chosen_while_the_core_runs(core):
    first = shown(core)
    assert (first["generation"], first["provider"], first["settings"], first["ready"]) == (1, "local", {}, True)

    assert "no provider" in core.cli("provider", "clear").stdout
    before = core.tables()
    with pytest.raises(openai.APIStatusError) as refused:
        hosted(core)
    assert refused.value.status_code == 503
    assert {name: rows for name, rows in core.tables().items() if name != "lease"} == {name: rows for name, rows in before.items() if name != "lease"}

    core.cli("provider", "set", "local")
    assert (shown(core)["generation"], shown(core)["provider"]) == (3, "local")
    session = hosted(core)

    # Another provider would lose sight of what this one holds.
    status, answer = put(core, 3, None)
    assert (status, answer["error"]["code"]) == (409, "sandbox_in_use")
    assert "1" in answer["error"]["message"]
    client_of(core).beta.agents.sessions.delete(session)

    core.stop()
    core.start()
    assert (shown(core)["generation"], shown(core)["ready"]) == (3, True)


def test_a_change_that_is_refused_changes_nothing(core, tmp_path):
    before = core.tables()["provider_selections"]
    # Stale before anything else, even with what is chosen already.
    for generation, provider in [(2, "local"), (0, "nobody"), (9, None)]:
        status, answer = put(core, generation, provider)
        assert (status, answer["error"]["code"]) == (409, "sandbox_generation_stale")
    for provider, settings, param, says in [
        ("nobody", {}, "provider", "berth plugin list"),
        # A plugin of another kind is no provider.
        ("harness-codex", {}, "provider", "berth plugin list"),
        ("local", {"color": "red"}, "settings", "'color'"),
        # It says itself that it is not ready.
        ("faulty-provider", {}, "provider", "cannot make sandboxes here"),
    ]:
        status, answer = put(core, 1, provider, settings=settings)
        error = answer["error"]
        assert (status, error["code"], error["param"]) == (400, "sandbox_configuration_invalid", param), answer
        assert says in error["message"]
    # What is chosen already changes nothing.
    assert put(core, 1, "local")[0] == 200
    assert core.tables()["provider_selections"] == before

    wrong = core.cli("provider", "set", "nobody", check=False)
    assert wrong.returncode == 1 and "berth plugin list" in wrong.stderr
    file = tmp_path / "settings.toml"
    file.write_text('color = "red"\n')
    wrong = core.cli("provider", "set", "local", "--settings", file, check=False)
    assert wrong.returncode == 1 and "color" in wrong.stderr
