"""The command line against a running Core: names and answers that scripts depend on."""

import http.server
import json
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import threading
import urllib.request

import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from test_sessions import message, settled


def test_the_first_start_makes_private_secrets(core):
    for name in ("credential.key", "core-key", "api-key", "installation-id"):
        assert stat.S_IMODE((core.folder / name).stat().st_mode) == 0o600, name
    for folder in (core.folder, core.folder / "blobs", *(core.folder / "blobs").iterdir()):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert core.core_key.startswith("oac_admin_") and core.api_key.startswith("berth_sk_")


def test_projects_and_keys(core):
    project = core.cli("project", "create", "from the command line").stdout.strip()
    key = json.loads(core.cli("key", "create", "--project", project, "--name", "k", "--json").stdout)
    assert core.raw("GET", "/v1/agents", key=key["key"])[0] == 200
    core.cli("key", "revoke", key["id"], "--project", project)
    assert core.raw("GET", "/v1/agents", key=key["key"])[0] == 401


def test_projects_are_renamed_archived_and_summed_up(core):
    # OPS-022, OPS-023, OPS-070
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="count me")
    settled(client, session.id)
    by_project = json.loads(core.cli("summary", "--project", "default", "--json").stdout)
    assert by_project[0]["sessions"]["total"] >= 1 and by_project[0]["usage"]["total_tokens"] > 0
    (agent,) = [row for row in json.loads(core.cli("summary", "--by", "agent", "--json").stdout) if row["agent_id"] == session.agent.id]
    assert (agent["sessions"]["total"], agent["coverage"]["ratio"]) == (1, 1.0)
    assert "count me" not in core.cli("summary", "--by", "key").stdout
    project = core.cli("project", "create", "to be renamed").stdout.strip()
    core.cli("project", "rename", "to be renamed", "another name")
    assert "another name" in core.cli("project", "list").stdout
    key = json.loads(core.cli("key", "create", "--project", project, "--json").stdout)["key"]
    core.cli("project", "archive", "another name")
    assert core.raw("GET", "/v1/agents", key=key)[0] == 401
    assert project in core.cli("summary").stdout, "an archived Project is still summed up"


def test_the_default_model_is_shown_without_its_key(core):
    shown = core.cli("model", "show", "--json").stdout
    assert MODEL in shown and berth.MODEL_KEY not in shown
    assert berth.MODEL_KEY not in core.cli("model", "show").stdout


def test_a_berth_key_is_refused_as_model_key(core, tmp_path):
    file = tmp_path / "key"
    file.write_text(core.api_key)
    file.chmod(0o600)
    words = ["model", "set", "--harness", "codex", "--protocol", "responses", "--base-url", "https://x.test/v1", "--model", "m", "--api-key-file", file]
    refused = core.cli(*words, check=False)
    assert refused.returncode == 1 and "must never see it" in refused.stderr


def test_sessions_are_shown_without_content(core):
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="a secret sentence")
    settled(client, session.id)
    assert session.id in core.cli("session", "list").stdout
    shown = core.cli("session", "show", session.id, "--json").stdout
    assert json.loads(shown)["status"] == "idle" and "secret sentence" not in shown
    assert json.loads(shown)["diagnostics"]["environment_status"] == "connected"
    environment = next(line for line in core.cli("session", "show", session.id).stdout.splitlines() if line.startswith("environment"))
    assert environment.endswith(" connected"), environment


def test_the_cause_of_a_failed_turn_stays_when_a_later_one_goes_well(fast):
    client = client_of(fast)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input=timeline({"exit": 3})).id
    settled(client, session)
    client.beta.agents.sessions.events.create(session, events=[message(timeline({"say": "well"}))])
    settled(client, session)
    turns = json.loads(fast.cli("session", "show", session, "--json").stdout)["turns"]
    assert [(turn["status"], turn["cause"]) for turn in turns] == [("completed", None), ("failed", "harness_error")]
    assert "harness_error" in fast.cli("session", "show", session).stdout


def test_the_doctor_asks_a_running_core_for_its_models(tmp_path, start_core):
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))

    def model():
        found = json.loads(core.cli("doctor", "--json", check=False).stdout)
        return [finding for finding in found if finding["what"] == "model"]

    assert [finding["mend"] for finding in model()] == [None]
    core.cli("model", "clear", "--harness", "codex")
    assert "berth model set --harness codex" in model()[0]["mend"]
    core.stop()
    assert model() == []


def test_what_is_missing_is_named(core):
    missing = "asess_00000000000000000000000000000000"
    shown = core.cli("session", "show", missing, check=False)
    assert shown.returncode == 1 and f"there is no Session {missing}" in shown.stderr and "berth session list" in shown.stderr, shown.stderr
    for words, said in (
        (("key", "revoke", missing, "--project", "default"), "berth key list"),
        (("model", "clear", "--harness", "nonesuch"), "berth model show"),
        (("session", "watch", missing), "berth session list"),
    ):
        refused = core.cli(*words, check=False)
        assert refused.returncode == 1 and "there is no " in refused.stderr and said in refused.stderr, refused.stderr
    wrong = core.cli("model", "set", "--harness", "codex", "--protocol", "foo", "--base-url", "https://x.test/v1", "--model", "m", "--api-key-file", "/nowhere", check=False)
    assert wrong.returncode == 2 and all(word in wrong.stderr for word in ("responses", "anthropic", "chat_completions")), wrong.stderr


def test_a_project_that_is_not_there_is_no_empty_list(core):
    listed = core.cli("session", "list", "--project", "ffffffff-ffff-ffff-ffff-ffffffffffff", check=False)
    assert listed.returncode == 1 and "not found" in listed.stderr.lower(), (listed.stdout, listed.stderr)


def test_a_missing_harness_is_named_where_an_operator_looks(tmp_path, start_core):
    """Without a harness nothing begins; `session show` says which one, and once it is there what waited for it runs."""
    (tmp_path / "nothing").mkdir()
    core = start_core(harnesses=tmp_path / "nothing")
    create = client_of(core).beta.agents.sessions.create
    hosted, plain = (create(agent={"model": MODEL}, environment={"type": kind}, input="x").id for kind in ("openai_hosted", "none"))

    def shown(session):
        return core.cli("session", "show", session).stdout

    until(lambda: "environment_provisioning_failed" in shown(hosted), "the Environment fails")
    assert "the selected Harness is unavailable. Install" in shown(hosted)
    until(lambda: "berth harness install codex" in shown(plain), "what the Turn waits for is told")
    assert client_of(core).beta.agents.sessions.turns.list(plain).data[0].status == "queued"
    berth.share(berth.scripted_harness(tmp_path / "h") / "codex", core.folder / "harnesses" / "codex")
    assert settled(client_of(core), plain).status == "idle"
    assert "waits" not in shown(plain)


def test_a_project_is_named_by_id_or_by_its_name(core):
    project = core.cli("project", "create", "by-name").stdout.strip()
    key = json.loads(core.cli("key", "create", "--project", "by-name", "--json").stdout)["id"]
    assert key in core.cli("key", "list", "--project", project).stdout
    assert "id" in core.cli("session", "list", "--project", "default").stdout
    unknown = core.cli("key", "create", "--project", "nope", check=False)
    assert unknown.returncode == 1 and "no Project called `nope`" in unknown.stderr, unknown.stderr
    twin = core.cli("project", "create", "by-name").stdout.strip()
    several = core.cli("key", "list", "--project", "by-name", check=False)
    assert several.returncode == 1 and project in several.stderr and twin in several.stderr, several.stderr


def test_without_a_word_the_first_default_project_is_meant(tmp_path, start_core):
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    model = "\x1b[2J" + "m" * 100_000
    session = client_of(core).beta.agents.sessions.create(agent={"model": model}, environment={"type": "openai_hosted"}).id
    core.cli("project", "create", "default")
    listed = core.cli("session", "list").stdout
    # What callers chose neither breaks the table nor reaches the terminal.
    assert session in listed and "\x1b" not in listed and max(map(len, listed.splitlines())) < 400
    assert core.cli("session", "show", session).returncode == 0


def test_a_harness_is_usable_by_a_relative_path_too(core):
    listed = subprocess.run([berth.BERTH, "harness", "list", "--data-dir", core.folder.name, "--json"], cwd=core.folder.parent, capture_output=True, text=True, timeout=60)
    assert [harness["available"] for harness in json.loads(listed.stdout)] == [True], listed.stdout


def test_what_a_killed_core_has_recorded_is_no_answer(start_core):
    core = start_core(harnesses=berth.HARNESSES)
    core.kill()
    found = json.loads(core.cli("doctor", "--json", check=False).stdout)
    assert "answers" not in next(finding for finding in found if finding["what"] == "port")["state"]
    asked = core.cli("session", "list", check=False)
    assert asked.returncode == 1 and f"berth serve --data-dir {core.folder}" in asked.stderr, asked.stderr


def test_a_folder_in_use_names_its_process(core):
    second = subprocess.run([berth.BERTH, "serve", "--data-dir", core.folder, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert second.returncode == 1 and f"process {core.process.pid}" in second.stderr, second.stderr


def test_a_taken_port_says_what_to_do(core, tmp_path):
    second = subprocess.run([berth.BERTH, "serve", "--data-dir", tmp_path / "d", "--listen", core.url.removeprefix("http://")], capture_output=True, text=True, timeout=30)
    assert second.returncode == 1 and "--listen" in second.stderr and "taken" in second.stderr, second.stderr
    # It was no first start: that comes yet, with what it has to say.
    server, said = berth.Server(tmp_path / "d"), []
    for _ in range(2):
        server.start().stop()
        said.append("this is the first start" in server.process.stdout.read())
    assert said == [True, False]


def test_a_secret_where_every_environment_looks_stops_the_start(tmp_path):
    """As an ordinary user an agent has Core's account, so the mode of a file below /etc keeps it from nothing (LOC-001)."""
    base = [berth.BERTH, "serve", "--listen", "127.0.0.1:0"]
    password = ["--database-url", "postgres://berth@127.0.0.1:1/berth", "--database-password-file", "/etc/passwd"]
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "password").write_text("password")
    exposed = [*password[:-1], secret / "password", "--local-expose", secret]
    for words, said in [(password, "is below /etc"), (exposed, "would show agents the file of --database-password-file")]:
        refused = subprocess.run([*base, "--data-dir", tmp_path / "d", *words], capture_output=True, text=True, timeout=30)
        assert refused.returncode == 1 and said in refused.stderr and "--database-password-file" in refused.stderr, refused.stderr


def test_no_core_says_how_to_start_one(tmp_path):
    asked = subprocess.run([berth.BERTH, "project", "list", "--data-dir", tmp_path], capture_output=True, text=True, timeout=30)
    assert asked.returncode == 1 and "berth serve --data-dir" in asked.stderr


def test_a_question_makes_no_data_folder(tmp_path):
    for words in (["doctor"], ["plugin", "list"], ["harness", "list"], ["session", "list"], ["model", "show"]):
        asked = subprocess.run([berth.BERTH, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert "panicked" not in asked.stderr and not list(tmp_path.iterdir()), (words, asked.stderr, list(tmp_path.iterdir()))


def test_a_lost_database_is_not_replaced_by_an_empty_one(tmp_path):
    server = berth.Server(tmp_path / "data").start()
    server.stop()
    for file in server.folder.glob("berth.db*"):
        file.unlink()
    again = subprocess.run([berth.BERTH, "serve", "--data-dir", server.folder, "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=30)
    assert again.returncode == 1 and "back-up" in again.stderr, again.stderr
    assert not list(server.folder.glob("berth.db*"))


def test_the_core_key_does_not_leave_in_clear(core):
    for url in ("http://192.0.2.7:8091", "http://core.example", "ftp://127.0.0.1"):
        words = [berth.BERTH, "project", "list", "--url", url, "--core-key-file", core.folder / "core-key"]
        asked = subprocess.run(words, capture_output=True, text=True, timeout=30)
        assert asked.returncode == 1 and "in clear" in asked.stderr, asked.stderr
    here = subprocess.run([berth.BERTH, "project", "list", "--url", core.url, "--core-key-file", core.folder / "core-key"], capture_output=True, text=True, timeout=30)
    assert here.returncode == 0, here.stderr


def test_a_folder_of_somebody_else_is_not_taken_for_an_empty_one(core):
    """Who may not read where the Core answers is told so, and not to start a second one."""
    # The checkout may be in a folder that only we may enter.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = pathlib.Path(folder) / "berth"
        berth.share(pathlib.Path(berth.BERTH), program)
        asked = subprocess.run([program, "project", "list", "--data-dir", core.folder], user=65534, group=65534, extra_groups=[], env={"PATH": "/usr/bin"}, capture_output=True, text=True, timeout=30)
    assert asked.returncode == 1 and "berth serve" not in asked.stderr and "runs the Core" in asked.stderr, asked.stderr


def local_provider(core, *more):
    listed = {plugin["id"]: plugin for plugin in json.loads(core.cli("plugin", "list", "--json", *more).stdout)}
    assert set(listed) == {"harness-codex", "local", "mcp-bindings"} and "here" not in listed["harness-codex"]
    return listed["local"]["here"]


def isolation_finding(core, *more):
    found = json.loads(core.cli("doctor", "--json", *more, check=False).stdout)
    return next(finding for finding in found if finding["what"] == "isolation")


def test_the_isolation_level_is_shown_and_the_doctor_agrees(core):
    """LOC-003: what a sandbox of this Core really has."""
    here = local_provider(core)
    assert here["ready"] and here["facts"]["isolation"] == "namespaces" and "processes" in here["facts"]["enforced_limits"]
    assert isolation_finding(core)["state"].startswith("namespaces; enforced limits: ")
    assert isolation_finding(core)["mend"] is None
    assert "isolation: namespaces" in core.cli("plugin", "list").stdout
    plain = ("--local-isolation", "none")
    assert local_provider(core, *plain)["facts"]["isolation"] == "none"
    assert isolation_finding(core, *plain)["state"].startswith("none, as ")


def test_without_a_flag_the_running_core_decides_the_level(tmp_path):
    server = berth.Server(tmp_path / "data", more=["--local-isolation", "none"]).start()
    assert local_provider(server)["facts"]["isolation"] == "none"
    assert isolation_finding(server)["state"].startswith("none, as ")
    server.stop()
    assert local_provider(server)["facts"]["isolation"] == "namespaces"


def demo(folder, *more, **environment):
    folder.mkdir(mode=0o700)
    berth.share(berth.HARNESSES, folder / "harnesses")
    command = [berth.BERTH, "demo", "--data-dir", folder, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def nothing_is_left_of(folder):
    server = berth.Server(folder)
    assert server.processes() == {} and list((folder / "sessions").glob("*/*")) == []


def test_the_demo_leaves_no_sandbox(tmp_path):
    folder = tmp_path / "demo"
    process = demo(folder, "--exit")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and "final answer:" in out, out + err
    nothing_is_left_of(folder)


@pytest.mark.parametrize("line", ["agent.session.turn.in_progress", "serving on"])
def test_the_demo_leaves_no_sandbox_after_ctrl_c(tmp_path, line):
    folder = tmp_path / "demo"
    process = demo(folder)
    for said in process.stdout:
        if line in said:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == (0 if line == "serving on" else 1), out + err
    assert "removing the demo's Session" in out
    nothing_is_left_of(folder)


def test_no_canary_in_any_log(core):
    """Invariant 12: no key in what the Core wrote."""
    log = (core.folder / "core.log").read_text(errors="replace")
    for secret in (core.api_key, core.core_key, berth.MODEL_KEY):
        assert secret not in log


def nobody_reads():
    """The writing end of a pipe whose reader has gone, as behind `| head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_a_core_that_nobody_listens_to_works_and_ends(tmp_path):
    # Every line on standard output and in the log is lost; nothing else is.
    folder, silent = tmp_path / "d", nobody_reads()
    command = [berth.BERTH, "serve", "--data-dir", folder, "--listen", "127.0.0.1:0", "--log-level", "debug"]
    core = subprocess.Popen(command, stdout=silent, stderr=silent)
    try:
        berth.until((folder / "server.json").exists, "the Core is ready")
        url = json.loads((folder / "server.json").read_text())["url"]
        with urllib.request.urlopen(url + "/healthz", timeout=10) as answer:
            assert answer.status == 200
        assert subprocess.run([berth.BERTH, "project", "list", "--data-dir", folder], capture_output=True, timeout=30).returncode == 0
        core.send_signal(signal.SIGTERM)
        assert core.wait(60) == 0
    finally:
        core.kill()


def test_a_command_whose_reader_has_gone_ends_quietly(core):
    for words in (["project", "list"], ["session", "list"], ["harness", "list"], ["doctor"], ["model", "show"]):
        done = subprocess.run([berth.BERTH, *words, "--data-dir", core.folder], stdout=nobody_reads(), stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode in (0, 1) and "panicked" not in done.stderr, (words, done.stderr)


def test_a_watcher_whose_reader_has_gone_ends(core):
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"})
    words = [berth.BERTH, "session", "watch", session.id, "--data-dir", core.folder]
    assert subprocess.run(words, stdout=nobody_reads(), timeout=30).returncode == 0


def test_a_watch_ends_with_its_session(core):
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"})
    words = [berth.BERTH, "session", "watch", session.id, "--data-dir", core.folder]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert "session idle" in watch.stdout.readline()
        client.beta.agents.sessions.delete(session.id)
        said, complaint = watch.communicate(timeout=30)
    assert (watch.returncode, complaint) == (0, "") and said.splitlines()[-1] == "the Session is deleted"


def test_a_core_elsewhere_lists_what_it_has(core):
    """Every question takes an address instead of a folder; what only the other machine can find out, its Core and Runtimes tell."""
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input="a Runtime comes with it")
    settled(client, session.id)
    there = ("--url", core.url, "--core-key-file", str(core.folder / "core-key"))
    ask = lambda *words: subprocess.run([berth.BERTH, *words, *there], capture_output=True, text=True, timeout=60)
    (codex,) = [row for row in json.loads(ask("harness", "list", "--json").stdout) if row["id"] == "codex"]
    assert codex["available"] and codex["version"] == "0.171.0"
    assert "available" in ask("harness", "list").stdout
    plugins = {row["id"]: row for row in json.loads(ask("plugin", "list", "--json").stdout)}
    assert {plugin["state"] for plugin in plugins.values()} == {"ready"} and "local" in plugins
    assert all(word in ask("plugin", "list").stdout for word in ("harness-codex", "local", "mcp-bindings"))
    for words in (("harness", "list"), ("plugin", "list")):
        alone = subprocess.run([berth.BERTH, *words, "--url", core.url], capture_output=True, text=True, timeout=60)
        assert alone.returncode == 2 and "--core-key-file" in alone.stderr


def test_what_a_hosted_message_waits_for_is_told(start_core):
    """A sandbox that was ended from outside does not come back: an operator sees what the message waits for, and until when."""
    core = start_core()
    client = client_of(core)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="begin")
    settled(client, session.id)
    berth.end_sandboxes(core.folder)
    status = lambda: client.beta.agents.environments.retrieve(session.environment.id).status
    until(lambda: status() != "connected", "its end is seen")
    send = threading.Thread(target=lambda: core.raw("POST", f"/v1/agents/sessions/{session.id}/events", {"events": [message("more")]}), daemon=True)
    send.start()
    until(lambda: "runtime_unavailable" in core.cli("session", "show", session.id).stdout, "the wait is told")
    shown = core.cli("session", "show", session.id).stdout
    assert all(part in shown for part in ("waits        runtime_unavailable (harness codex), until 20", "what to do: wait; a hosted Session")), shown
    waiting = json.loads(core.cli("session", "show", session.id, "--json").stdout)["diagnostics"]["waiting"]
    assert set(waiting) == {"code", "harness", "expires_at"}


class Refusing(http.server.BaseHTTPRequestHandler):
    """A model provider that knows no key."""

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b'{"error":{"message":"no such key","type":"invalid_request_error","code":"invalid_api_key"}}'
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_refused_model_key_is_told_with_what_to_do(core, tmp_path):
    session = client_of(core).beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input=berth.script({"status": 401}))
    settled(client_of(core), session.id)
    told = ("connection_failed", "the model provider refuses the key", "what to do: `berth model set`")
    shown = core.cli("session", "show", session.id).stdout
    assert all(part in shown for part in told), shown
    provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{provider.server_address[1]}/v1"
    with demo(tmp_path / "demo", "--exit", "--model", MODEL, "--base-url", url, BERTH_DEMO_MODEL_KEY="sk-not-this-one") as process:
        _, error = process.communicate(timeout=120)
    provider.shutdown()
    assert process.returncode == 1 and all(part in error for part in told), error
    nothing_is_left_of(tmp_path / "demo")


def test_a_default_model_that_this_start_does_not_admit_is_told(start_core):
    core = start_core()
    core.stop()
    assert "its default model is at a plain http address" not in core.log_tail()
    core.loopback_models = False
    core.start()
    told = [json.loads(line)["fields"] for line in core.log_tail().splitlines() if "its default model is at a plain http address" in line]
    assert [fields["harness"] for fields in told] == ["codex"]


def test_one_intention_that_comes_as_two_signals_is_a_drain(start_core):
    """`timeout` and terminals signal a process and its group."""
    core = start_core()
    core.process.send_signal(signal.SIGTERM)
    core.process.send_signal(signal.SIGINT)
    assert core.process.wait(30) == 0, core.log_tail()


def check_config(*words, cwd=None, **environment):
    return subprocess.run([berth.BERTH, "check-config", *words], capture_output=True, text=True, timeout=60, cwd=cwd, env={**os.environ, **environment})


def test_settings_are_judged_without_a_start(tmp_path):
    """OPS-083: the settings of `serve`, wherever they stand; nothing is made, and no secret is shown."""
    folder, file, password = tmp_path / "data", tmp_path / "berth.toml", tmp_path / "password"
    password.write_text("a-secret-word")
    password.chmod(0o644)
    file.write_text(f'[serve]\ndata-dir = "{folder}"\nlisten = "127.0.0.1:0"\n')
    fine = check_config("--config", file)
    assert fine.returncode == 0 and "can be used" in fine.stdout, fine.stderr
    assert not folder.exists()
    for words, says in [
        (["--public-url", "https://a.test/path"], "--public-url"),
        (["--listen", "0.0.0.0:1"], "--public-url"),
        (["--database-url", "postgres://u:a-secret-word@h/d"], "--database-password-file"),
        (["--database-url", "postgres://u@h/d", "--database-password-file", password], str(password)),
        (["--harnesses", "nobody"], "codex"),
        (["--default-harness", "nobody"], "--default-harness"),
        (["--local-expose", "relative"], "--local-expose"),
        (["--local-expose", tmp_path], "data folder"),
        (["--oauth-trusted-origin", "http://a.test"], "--oauth-trusted-origin"),
        (["--execution-concurrency", "many"], "--execution-concurrency"),
    ]:
        wrong = check_config("--config", file, *words)
        assert wrong.returncode != 0 and says in wrong.stderr and "a-secret-word" not in wrong.stderr, (words, wrong.stderr)
    wrong = check_config("--config", file, BERTH_DEFAULT_HARNESS="nobody")
    assert wrong.returncode == 1 and "--default-harness" in wrong.stderr
    file.write_text(file.read_text() + "no-such-key = 1\n")
    wrong = check_config("--config", file)
    assert wrong.returncode == 2 and "serve.no-such-key" in wrong.stderr
    assert not folder.exists()


def test_settings_of_a_running_core_can_be_judged(core):
    assert check_config("--data-dir", core.folder, "--listen", "127.0.0.1:0").returncode == 0
