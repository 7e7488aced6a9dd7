"""Starts the real program and a scripted model, and talks to them as a client does."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

from ledger import Ledger

ROOT = pathlib.Path(__file__).resolve().parents[3]
BERTH = pathlib.Path(os.environ.get("BERTH_TEST_BIN", ROOT / "target/debug/berth"))
SCRIPTED = pathlib.Path(os.environ.get("BERTH_TEST_SCRIPTED", ROOT / "target/debug/berth-scripted"))
HARNESSES = pathlib.Path(os.environ.get("BERTH_TEST_HARNESSES", ROOT / "target/test-tools/harnesses"))
MODEL = "scripted-1"
MODEL_KEY = "sk-canary-model-key"
SETTLES_WITHIN = 60
# Ends what `psql` says to one statement.
DONE = "-- done --"


def script(*replies):
    """A message that carries the model's replies (real Codex)."""
    return "scripted: " + json.dumps(list(replies))


def timeline(*steps):
    """A message that carries what the scripted harness does."""
    return "timeline: " + json.dumps(list(steps))


def steps(*what, **more):
    """One reply of the model."""
    return {"steps": list(what), **more}


class Model:
    """The scripted model server."""

    def __init__(self):
        self.process = subprocess.Popen([BERTH, "scripted-model"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.base_url = self.process.stdout.readline().split()[-1]

    def stop(self):
        self.process.stdin.close()
        self.process.wait(10)

    def _control(self, path, method="GET"):
        request = urllib.request.Request(self.base_url.removesuffix("/v1") + "/scripted/" + path, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def requests(self):
        return self._control("requests")

    def until_holding(self, name):
        until(lambda: name in self._control("holding"), f"the model waits at {name}")

    def release(self, name):
        self._control(f"release/{name}", "POST")


class Server:
    """A Core on a data folder, started, stopped, killed and started again."""

    def __init__(self, folder, database=None, harnesses=None, more=()):
        self.folder = pathlib.Path(folder)
        self.database = database
        self.more = list(more)
        self.loopback_models = True
        self.process = None
        self.port = 0
        self.psql = None
        self.ledger = Ledger()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        installed = self.folder / "harnesses"
        if not installed.exists():
            share(harnesses or HARNESSES, installed)

    def start(self, **environment):
        command = [BERTH, "serve", "--data-dir", self.folder, "--listen", f"127.0.0.1:{self.port}"]
        command += ["--allow-loopback-model-urls"] if self.loopback_models else []
        command += ["--log-format", "json", *self.more]
        if self.database:
            command += ["--database-url", self.database]
        self.log = open(self.folder / "core.log", "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **environment})
        line = self.process.stdout.readline()
        assert line.startswith("berth is ready on "), f"{line!r}\n{self.log_tail()}"
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])
        return self

    def stop(self):
        """SIGTERM drains and exits 0."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            code = self.process.wait(60)
            assert code == 0, f"exit status {code}\n{self.log_tail()}"
            self.check(quiescent=True)
        if self.psql:
            self.psql.kill()

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        self.check()

    def check(self, quiescent=False):
        """The invariants of the design over the whole database, and that it holds every accepted message exactly once (reliability 4)."""
        command = [BERTH, "test-database", "--data-dir", self.folder]
        command += ["--database-url", self.database] if self.database else []
        command += ["--quiescent"] if quiescent else []
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        wrong = found["violations"] + self.ledger.differences(found["sessions"], found["messages"])
        assert not wrong, "\n".join(wrong) + "\n" + self.log_tail()

    def log_tail(self):
        return (self.folder / "core.log").read_text(errors="replace")[-6000:]

    @property
    def api_key(self):
        return (self.folder / "api-key").read_text().strip()

    @property
    def core_key(self):
        return (self.folder / "core-key").read_text().strip()

    def cli(self, *words, check=True):
        done = subprocess.run([BERTH, *words, "--data-dir", self.folder], capture_output=True, text=True, timeout=60)
        if check:
            assert done.returncode == 0, done.stderr
        return done

    def set_default_model(self, model, harness="codex"):
        key = self.folder / "model-key"
        key.write_text(MODEL_KEY)
        key.chmod(0o600)
        self.cli("model", "set", "--harness", harness, "--protocol", "responses", "--base-url", model.base_url, "--model", MODEL, "--api-key-file", key)

    def raw(self, method, path, body=None, key=None, headers=None):
        """A request without the SDK: status, headers, parsed body. A header that is None is not sent."""
        data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
        sent = {"authorization": f"Bearer {key or self.api_key}", "openai-beta": "agents=v1", "content-type": "application/json", **(headers or {})}
        sent = {name: value for name, value in sent.items() if value is not None}
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=sent)
        entry = self.ledger.sent(method, path, sent, data)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                status, got, text = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            status, got, text = error.code, error.headers, error.read()
        parsed = json.loads(text) if text else None
        self.ledger.answered(entry, status, parsed.get("id") if isinstance(parsed, dict) else None)
        return status, got, parsed

    def admin(self, method, path, body=None):
        return self.raw(method, "/core/v1" + path, body, key=self.core_key)

    def workspace(self, session_id):
        """The Session's folder on this machine."""
        found = [path for path in (self.folder / "sessions").glob(f"*/{session_id}")]
        return found[0] if found else None

    def tables(self):
        """Every row of every table as stored, sorted: what a request may have changed."""
        found = {}
        if self.database:
            listed = self._psql("select tablename from pg_tables where schemaname = 'public'")
            found = {table: [] for table in listed}
            every = " union all ".join(f"""select '{table}' as name, row_to_json(t)::text as row from "{table}" t""" for table in listed)
            for line in self._psql(f"select json_build_array(name, row) from ({every}) everything"):
                table, row = json.loads(line)
                found[table].append(json.loads(row))
            return {table: sorted(rows, key=str) for table, rows in found.items()}
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/berth.db?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
                found[table] = sorted((dict(row) for row in database.execute(f'select * from "{table}"')), key=str)
        return found

    def _psql(self, statement):
        """Runs a statement in one lasting `psql`: a process for each would cost more than all else."""
        if self.psql is None or self.psql.poll() is not None:
            self.psql = subprocess.Popen(["psql", self.database, "-qtA"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.psql.stdin.write(f"{statement};\n\\echo {DONE}\n")
        self.psql.stdin.flush()
        return list(iter(lambda: self.psql.stdout.readline().rstrip("\n"), DONE))

    def processes(self, session_id=""):
        """Every process of this Core's sandboxes, or of one Session's: pid and command line."""
        mark = session_id or f"{self.folder}/sessions/"
        return {pid: command for pid, (command, places) in every_process().items() if mark in places}

    def children(self):
        """Every process below this Core that is not in a sandbox: pid and command line."""
        parents = {int(entry.name): parent(int(entry.name)) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()}
        found, level = {}, [self.process.pid]
        while level:
            level = [pid for pid, above in parents.items() if above in level]
            for pid in level:
                with contextlib.suppress(OSError):
                    found[pid] = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return found


def parent(pid):
    """The parent of a process; 0 when it is gone."""
    with contextlib.suppress(OSError):
        # The name in the second field may hold blanks and brackets.
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def every_process():
    """Command line and places of each: a sandbox sees its folder in its mounts, or without a view of its own in arguments and directory."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                places = [(entry / "mountinfo").read_text(errors="replace"), command]
                with contextlib.suppress(OSError):
                    places.append(os.readlink(entry / "cwd"))
                found[int(entry.name)] = (command, "\n".join(places))
    return found


def end_sandboxes(folder):
    """Ends what outlives its Core by design: the init and supervisor of every sandbox below a test's folder."""
    processes = every_process()
    inside = {pid for pid, (_, places) in processes.items() if str(folder) in places}
    # An init without a mount namespace shows nothing of its folder, but its daemon does.
    inside |= {parent(pid) for pid in inside}
    for pid in inside:
        if "sandbox-init" in processes.get(pid, ("",))[0]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def share(source, target):
    """The installed harnesses, without copying 400 MB for each test."""
    if subprocess.run(["cp", "-al", source, target], check=False, capture_output=True).returncode != 0:
        # Another disk, or files of another account: what was made so far are empty folders.
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", source, target], check=True)


def scripted_harness(folder, plan=None):
    """A harness folder in which the scripted harness stands in for Codex."""
    program = next((HARNESSES / "codex").glob("*/node_modules/@openai/codex-*/vendor/*/bin/codex"))
    target = pathlib.Path(folder) / program.relative_to(HARNESSES)
    target.parent.mkdir(parents=True)
    target.write_bytes(SCRIPTED.read_bytes())
    target.chmod(0o755)
    for relative in ("codex-path",):
        (target.parent.parent / relative).mkdir(exist_ok=True)
    if plan is not None:
        (target.parent / "timeline.json").write_text(json.dumps(plan))
    return pathlib.Path(folder)


def diagnosed(server, session_id):
    """What an operator is told about the failure of a Session's last Turn (OPS-051)."""
    project = next(project["id"] for project in server.admin("GET", "/projects")[2]["data"] if project["name"] == "default")
    failure = server.admin("GET", f"/projects/{project}/sessions/{session_id}/diagnostics")[2]["failure"]
    return failure and failure["code"]


def cause(server, session_id):
    """The stored cause of a Session's last failed Turn (state-machines 1.2)."""
    turns = [json.loads(row["body"]) for row in server.tables()["turns"] if row["session_id"] == session_id]
    outcomes = [turn["state"]["outcome"] for turn in sorted(turns, key=lambda turn: turn["work_seq"]) if turn["state"]["state"] == "ended"]
    return next((outcome["cause"]["cause"] for outcome in reversed(outcomes) if outcome["outcome"] == "failed"), None)


def until(condition, what, within=SETTLES_WITHIN):
    end = time.monotonic() + within
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {within} s: {what}"
        time.sleep(0.02)
