"""The deployment's one sandbox provider: shown, chosen, cleared, while the Core runs (SP-2.1 to SP-2.3, SP-2.7)."""

import http.server
import json
import threading

import openai
import pytest

import berth
from berth import MODEL, script, steps, until
from conftest import client_of
from test_plugins import file_of, plugin
from test_sessions import settled


GRANTS = "state,clock,http,program"
KEY = "the-key-of-the-service"


@pytest.fixture
def core(tmp_path, database, start_core):
    folder = tmp_path / "data"
    server = berth.Server(folder, database=database, harnesses=berth.scripted_harness(tmp_path / "h"))
    helper = tmp_path / "helper"
    helper.write_text(f'#!/bin/sh\n[ "$KEY" = "{KEY}" ] && [ "$(env | grep -c KEY)" = 1 ] && echo "$2"\n')
    helper.chmod(0o755)
    plugin("install", file_of("faulty-provider", "component"), "--grant", GRANTS, "--program", f"helper={helper}", "--data-dir", folder)
    return start_core(database, folder=folder)


class Service(http.server.ThreadingHTTPServer):
    """Says whether the provider is ready to whoever has the key."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.ready, self.asked = True, []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers["authorization"]))
        self.send_response(200 if self.server.ready else 503)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def service():
    server = Service()
    yield server
    server.shutdown()
    server.server_close()


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


def test_a_provider_that_is_not_ready_closes_hosted_admission_until_it_is(core, service, tmp_path):
    """SP-12.2, with a component that asks its service and a program whether it is, both with a key that it never has."""
    file = tmp_path / "settings.toml"
    file.write_text(f'service = "http://127.0.0.1:{service.server_port}"\napi-key = "{KEY}"\n')
    said = core.cli("provider", "set", "faulty-provider", "--settings", file)
    assert "ready" in said.stdout and "not ready" not in said.stdout and KEY not in said.stdout
    assert service.asked == [("/ready", f"Bearer {KEY}")]

    def admitted():
        try:
            create = client_of(core).beta.agents.sessions.create
            return create(agent={"model": MODEL}, environment={"type": "openai_hosted"})
        except openai.APIStatusError as error:
            assert error.status_code == 503
            return None

    assert admitted()
    service.ready = False
    until(lambda: shown(core)["problem"] == "status_503", "it is asked again", 60)
    assert not shown(core)["ready"]
    said = core.cli("provider", "show").stdout
    assert "not ready (status_503)" in said and KEY not in said
    sessions = core.tables()["sessions"]
    assert admitted() is None and core.tables()["sessions"] == sessions
    client_of(core).beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="x")
    service.ready = True
    until(admitted, "it is admitted again", 30)

    # After a restart the key comes out of the database, where it is sealed.
    core.stop()
    service.asked.clear()
    core.start()
    assert shown(core)["ready"] and set(service.asked) == {("/ready", f"Bearer {KEY}")}
    assert KEY not in json.dumps(core.tables(), default=str) and KEY not in core.log_tail()
    for session in client_of(core).beta.agents.sessions.list():
        client_of(core).beta.agents.sessions.delete(session.id)
    until(lambda: core.cli("provider", "set", "local", check=False).returncode == 0, "nothing is held any more")


def test_a_program_that_changed_since_it_was_granted_is_not_started(core, service, tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(f'service = "http://127.0.0.1:{service.server_port}"\napi-key = "other"\n')
    refused = core.cli("provider", "set", "faulty-provider", "--settings", file, check=False)
    assert refused.returncode == 1 and "exit_1" in refused.stderr, refused.stderr
    file.write_text(file.read_text().replace("other", KEY))
    with (tmp_path / "helper").open("a") as helper:
        helper.write("true\n")
    refused = core.cli("provider", "set", "faulty-provider", "--settings", file, check=False)
    assert refused.returncode == 1 and "program_changed" in refused.stderr, refused.stderr


def test_a_program_of_a_plugin_is_named_when_it_is_installed(tmp_path):
    component, folder = file_of("faulty-provider", "component"), tmp_path / "data"
    for words, says in [((), "--program helper="), (("--program", "other=/bin/true"), "other"), (("--program", "helper=/no/where"), "/no/where"), (("--program", "helper=true"), "NAME=/absolute/path")]:
        refused = plugin("install", component, "--grant", GRANTS, *words, "--data-dir", folder, check=False)
        assert refused.returncode != 0 and says in refused.stderr, refused.stderr
    assert "reaches    {setting.service} (GET), with the secret settings api-key" in plugin("check", component, check=False).stdout
