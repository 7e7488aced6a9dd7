"""What an agent inside a sandbox can reach: nothing of Berth, of this machine's operator, or of another Session (LOC-001, LOC-002)."""

import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import tempfile
import threading

import pytest

import berth
from berth import MODEL, MODEL_KEY, cause, script, steps, timeline, until
from conftest import client_of
from test_sessions import last_turn, message, settled

# Prints each place where one of the values is found, and each process whose memory can be opened. The patterns do not match themselves.
SEARCH = r"""
exec 2>/dev/null
OWN=$PWD
cd /
grep -raslE -D skip "$PATTERN" "$OWN" 2>/dev/null | sed 's/^/FOUND file /'
for root in /*; do
  case $root in /proc|/sys|/dev|/usr|/lib*|/bin|/sbin|/opt|/boot) continue;; esac
  grep -raslE -D skip "$PATTERN" "$root" 2>/dev/null | sed 's/^/FOUND file /'
done
for folder in $PLACES; do
  ls -a "$folder" >/dev/null 2>&1 && echo "FOUND listing $folder"
  grep -raslE -D skip "$PATTERN" "$folder" 2>/dev/null | sed 's/^/FOUND place /'
done
env | grep -qE "$PATTERN" && echo "FOUND own environment"
for process in /proc/[0-9]*; do
  for part in environ cmdline; do
    tr '\0' '\n' < $process/$part 2>/dev/null | grep -qaE "$PATTERN" && echo "FOUND $part $(tr '\0' ' ' < $process/cmdline)"
  done
  (exec 3< $process/mem) 2>/dev/null && echo "MEMORY $(tr '\0' ' ' < $process/cmdline)"
done
grep -qF sentinel-key-of-the-operator /proc/keys && echo "FOUND key"
perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => $ARGV[0]) and print "FOUND control network\n"' "$NETWORK"
perl -MIO::Socket::UNIX -e 'for (@ARGV) { s/^@/\0/; my $to = IO::Socket::UNIX->new(Peer => $_) or next; print "FOUND socket ", scalar(<$to>), "\n" }' $SOCKETS
chmod 777 $PLACES
echo SEARCHED
"""


@pytest.fixture
def reachable(start_core):
    """A data folder that accounts of sandboxes may pass through, as Landlock needs it under root."""
    outer = pathlib.Path(tempfile.mkdtemp(prefix="berth-suite-", dir="/var/tmp"))
    outer.chmod(0o711)
    (outer / "data").mkdir(mode=0o711)
    yield outer / "data"
    berth.end_sandboxes(outer)
    shutil.rmtree(outer)


@contextlib.contextmanager
def services(folder):
    """A database that trusts accounts and a service without a file, as sockets: their addresses."""
    path, abstract = str(folder / "database.sock"), f"@{folder.name}"
    # Before Linux 6.12 nothing keeps a sandbox from sockets without a file.
    scoped = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 12)
    with contextlib.ExitStack() as stack:
        for name in [path, abstract] if scoped else [path]:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name.replace("@", "\0"))
            listener.listen()
            threading.Thread(target=tell, args=(listener, name), daemon=True).start()
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
        os.chmod(path, 0o777)
        yield f"{path} {abstract}"


def tell(listener, name):
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            with client:
                client.sendall(f"sentinel of {name}".encode())


def key_of_the_operator():
    """Puts a key into a session key ring that a Core started from here inherits, where the kernel has keys."""
    add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
    call = ctypes.CDLL(None, use_errno=True).syscall
    joined = call(control, 1, None) >= 0
    added = joined and call(add, b"user", b"sentinel-key-of-the-operator", b"x", ctypes.c_size_t(1), -3) >= 0
    assert added == pathlib.Path("/proc/keys").exists() and (not added or "sentinel-key-of-the-operator" in pathlib.Path("/proc/keys").read_text())


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_an_agent_finds_no_secret_of_anybody_else(start_core, reachable, level):
    key_of_the_operator()
    core = start_core(folder=reachable, more=["--local-isolation", level], BERTH_TEST_SENTINEL="sentinel-environment-of-core")
    client = client_of(core)

    def session(text):
        made = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=text).id
        settled(client, made)
        assert last_turn(client, made).status == "completed", (cause(core, made), core.log_tail())
        return made

    # The other one has a file in its workspace and keeps a command running.
    other = session(script(steps({"shell": "echo sentinel-workspace-of-another > secret.txt"}), steps({"say": "done"})))
    until(lambda: core.processes(other), "the other sandbox lives")
    mine = session("hello")
    device = json.loads((core.workspace(mine) / "state/bootstrap.json").read_text())
    secrets = [
        (core.folder / "credential.key").read_text().strip(), core.core_key, core.api_key, MODEL_KEY,
        "sentinel-environment-of-core", "sentinel-workspace-of-another", *credentials(device),
    ]
    assert len(secrets) > 6 and all(len(secret) >= 16 for secret in secrets), "the bootstrap file has a credential"

    # What the search must find, so that finding nothing means something.
    work = core.workspace(mine) / "workspace"
    (work / "control.txt").write_text("sentinel-control-in-a-file")
    patterns = [*secrets, "sentinel-control-in-a-file", "sentinel-control-in-memory"]
    pattern = "|".join(f"[{value[0]}]{re.escape(value[1:])}" for value in patterns)
    places = [core.folder, core.folder / "sessions", core.workspace(other), core.workspace(other) / "workspace", core.workspace(mine) / "state"]
    # Its own account has its own state.
    modes = {place: place.stat().st_mode for place in places[:-1]}
    start = "CONTROL=sentinel-control-in-memor''y sh -c 'sleep 60 & sh ./search.sh; kill $!'"
    with services(reachable.parent) as sockets:
        facts = {"PATTERN": pattern, "PLACES": " ".join(map(str, places)), "SOCKETS": sockets, "NETWORK": f"127.0.0.1:{core.port}"}
        (work / "search.sh").write_text("".join(f"{name}='{value}'\n" for name, value in facts.items()) + SEARCH)
        client.beta.agents.sessions.events.create(mine, events=[message(script(steps({"shell": start}), steps({"say": "{{output}}"})))])
        settled(client, mine, turns=2)
    command = next(item for item in client.beta.agents.sessions.items.list(mine) if item.type == "command_execution")
    lines = command.output.splitlines()
    assert lines[-1] == "SEARCHED", command
    found = [line for line in lines if line.startswith("FOUND")]
    assert any("control.txt" in line for line in found), "the control in a file was not found"
    assert any("environ sleep 60" in line for line in found) and "FOUND own environment" in found and "FOUND control network" in found, f"a control was not found: {found}"
    own = re.compile(r"control\.txt|FOUND own environment|FOUND control network|FOUND environ (sh|sleep|tr|/bin/|/usr/bin/|bash|-)")
    assert [line for line in found if not own.search(line)] == []
    assert {place: place.stat().st_mode for place in modes} == modes, "modes of somebody else's files were changed"
    memory = [line for line in lines if line.startswith("MEMORY")]
    assert memory and not [line for line in memory if re.search(r"berth (daemon|serve|supervise)|sandbox-init", line)], memory


def credentials(bootstrap):
    """Every long random text of a bootstrap file."""
    values = [value for value in bootstrap.values() if isinstance(value, str)]
    return [value for value in values if len(value) >= 32 and not re.fullmatch(r"[0-9a-f-]{36}", value) and not re.match(r"/|unix:|http", value)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sandboxes accounts of their own")
def test_landlock_is_refused_where_its_accounts_cannot_pass(start_core):
    """Told at the start, not at the first Session (LOC-002)."""
    core = start_core(more=["--local-isolation", "landlock"])
    status, _, answer = core.raw("POST", "/v1/agents/sessions", {"agent": {"model": MODEL}, "environment": {"type": "openai_hosted"}})
    assert status >= 400, answer
    assert "sessions_unreachable" in core.log_tail()


def test_whoever_takes_the_port_of_a_core_that_is_away_hears_nothing(tmp_path, start_core):
    """Daemons of this machine come back through their Core's socket, never to a port that anybody may take (LOC-001, RP-3.3)."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    client = client_of(core)
    made = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=timeline({"say": "first"})).id
    settled(client, made)
    if socket.has_dualstack_ipv6():
        with pytest.raises(OSError), socket.create_server(("::1", core.port), family=socket.AF_INET6):
            pass
    tried = core.workspace(made) / "state/daemon.log"
    core.kill()
    heard = []
    with socket.create_server(("127.0.0.1", core.port)) as taken:
        threading.Thread(target=listen, args=(taken, heard), daemon=True).start()
        with socket.create_connection(("127.0.0.1", core.port)) as control:
            control.sendall(b"control")
        until(lambda: tried.read_text().count("no connection to Core") >= 3, "the daemon looks for its Core")
        until(lambda: heard, "the control is heard")
        # A thread that waits in `accept` would keep the port.
        taken.shutdown(socket.SHUT_RDWR)
    assert heard == [b"control"]
    core.start()
    client.beta.agents.sessions.events.create(made, events=[message(timeline({"say": "{{history}}"}))])
    settled(client, made, turns=2)
    assert last_turn(client, made).status == "completed", (cause(core, made), core.log_tail())


def listen(listener, heard):
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            with client:
                heard.append(client.recv(65536))


def test_a_crowd_of_silent_connections_keeps_nobody_out(tmp_path, start_core):
    """One sandbox can open more connections than a Core allows; health, clients and Runtimes that come back are served all the same."""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"), more=["--max-connections", "32"])
    client = client_of(core)
    made = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=timeline({"say": "first"})).id
    settled(client, made)
    with contextlib.ExitStack() as crowd:
        for _ in range(100):
            crowd.enter_context(socket.create_connection(("127.0.0.1", core.port)))
        assert core.raw("GET", "/healthz")[0] == 200
        (daemon,) = [pid for pid, command in core.processes(made).items() if "berth daemon" in command]
        os.kill(daemon, signal.SIGKILL)
        client.beta.agents.sessions.events.create(made, events=[message(timeline({"say": "{{history}}"}))])
        settled(client, made, turns=2)
    assert last_turn(client, made).status == "completed", (cause(core, made), core.log_tail())
