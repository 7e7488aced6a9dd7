"""What an agent inside a sandbox can reach: nothing of Berth, of this machine's operator, or of another Session (LOC-001, LOC-002)."""

import json
import os
import pathlib
import re
import shutil
import tempfile

import pytest

import berth
from berth import MODEL, MODEL_KEY, cause, script, steps, until
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


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_an_agent_finds_no_secret_of_anybody_else(start_core, reachable, level):
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
    (work / "search.sh").write_text(f"PATTERN='{pattern}'\nPLACES='{' '.join(map(str, places))}'\n" + SEARCH)
    start = "CONTROL=sentinel-control-in-memor''y sh -c 'sleep 60 & sh ./search.sh; kill $!'"
    client.beta.agents.sessions.events.create(mine, events=[message(script(steps({"shell": start}), steps({"say": "{{output}}"})))])
    settled(client, mine, turns=2)
    command = next(item for item in client.beta.agents.sessions.items.list(mine) if item.type == "command_execution")
    lines = command.output.splitlines()
    assert lines[-1] == "SEARCHED", command
    found = [line for line in lines if line.startswith("FOUND")]
    assert any("control.txt" in line for line in found), "the control in a file was not found"
    assert any("environ sleep 60" in line for line in found) and "FOUND own environment" in found, f"the control in memory was not found: {found}"
    own = re.compile(r"control\.txt|FOUND own environment|FOUND environ (sh|sleep|tr|/bin/|/usr/bin/|bash|-)")
    assert [line for line in found if not own.search(line)] == []
    memory = [line for line in lines if line.startswith("MEMORY")]
    assert memory and not [line for line in memory if re.search(r"berth (daemon|serve|supervise)|sandbox-init", line)], memory


def credentials(bootstrap):
    """Every long random text of a bootstrap file."""
    values = [value for value in bootstrap.values() if isinstance(value, str)]
    return [value for value in values if len(value) >= 32 and not re.fullmatch(r"[0-9a-f-]{36}", value) and "/" not in value[:1] and "://" not in value]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives sandboxes accounts of their own")
def test_landlock_is_refused_where_its_accounts_cannot_pass(start_core):
    """Told at the start, not at the first Session (LOC-002)."""
    core = start_core(more=["--local-isolation", "landlock"])
    status, _, answer = core.raw("POST", "/v1/agents/sessions", {"agent": {"model": MODEL}, "environment": {"type": "openai_hosted"}})
    assert status >= 400, answer
    assert "sessions_unreachable" in core.log_tail()
