"""Signed plugins: made with openssl as an author does, believed by the keys that the operator trusts."""

import json
import shutil
import subprocess

import pytest

import berth
from berth import MODEL
from conftest import client_of
from test_plugins import file_of, plugin
from test_sessions import settled


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


def key(folder, name):
    """A pair of keys: the private one's file, and the public one's beside it."""
    private = folder / f"{name}.key"
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", private.with_suffix(".pem"))
    return private


def sign(private, file):
    openssl("pkeyutl", "-sign", "-rawin", "-inkey", private, "-in", file, "-out", f"{file}.sig")


def listed(folder, *more):
    rows = json.loads(plugin("list", "--json", "--data-dir", folder, *more).stdout)
    return {row["id"]: row for row in rows if row["id"]}, {row["file"].rsplit("/", 1)[1]: row["reason"] for row in rows if row["state"] == "refused"}


@pytest.fixture
def mine(tmp_path):
    """A plugin file of an author, and the author's key."""
    file = tmp_path / "mine.wasm"
    shutil.copy(file_of("harness-codex", "component"), file)
    return file, key(tmp_path, "author")


def test_a_signature_is_believed_only_from_who_is_trusted(tmp_path, mine):
    folder = tmp_path / "data"
    file, author = mine
    install = ["install", file, "--data-dir", folder]
    # Nobody is trusted: nothing is looked at, and nothing will do where a signature is required.
    plugin(*install)
    refused = plugin(*install, "--require-signed-plugins", check=False)
    assert refused.returncode == 1 and "mine.wasm.sig" in refused.stderr
    sign(author, file)
    plugin(*install)
    # The wrong key is trusted.
    plugin("trust", "add", "stranger", key(tmp_path, "stranger").with_suffix(".pem"), "--data-dir", folder)
    refused = plugin(*install, check=False)
    assert refused.returncode == 1 and "berth plugin trust add" in refused.stderr
    # The right one.
    plugin("trust", "add", "author", author.with_suffix(".pem"), "--data-dir", folder)
    assert "signature    by author" in plugin(*install, "--require-signed-plugins").stdout
    assert listed(folder)[0]["harness-codex"]["signed_by"] == "author"
    assert json.loads(plugin("inspect", "harness-codex", "--json", "--data-dir", folder).stdout)["signed-by"] == "author"
    # One byte of it is changed where it lies.
    installed = folder / "plugins/harness-codex.wasm"
    before = installed.read_bytes()
    middle = len(before) // 2
    installed.write_bytes(before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :])
    loaded, refused = listed(folder)
    assert loaded["harness-codex"]["transport"] == "built in" and "or for other bytes" in refused["harness-codex.wasm"]
    # The author is trusted no more, and the file is as it was.
    installed.write_bytes(before)
    plugin("trust", "remove", "author", "--data-dir", folder)
    assert "harness-codex.wasm" in listed(folder)[1]
    assert plugin("trust", "remove", "author", "--data-dir", folder, check=False).returncode == 1
    assert list(json.loads(plugin("trust", "list", "--json", "--data-dir", folder).stdout)) == ["stranger"]
    refused = plugin("trust", "add", "private", author, "--data-dir", folder, check=False)
    assert refused.returncode == 1 and "-pubout" in refused.stderr


def test_a_core_that_requires_signatures_loads_nothing_else(tmp_path, mine, start_core):
    folder, harnesses = tmp_path / "data", berth.scripted_harness(tmp_path / "h")
    berth.Server(folder, harnesses=harnesses)
    file, author = mine
    sign(author, file)
    plugin("trust", "add", "author", author.with_suffix(".pem"), "--data-dir", folder)
    plugin("install", file, "--data-dir", folder)
    plugin("install", file_of("local", "component"), "--grant", "machine", "--data-dir", folder)
    core = start_core(folder=folder, more=["--require-signed-plugins"])
    shown = core.admin("GET", "/plugins")[2]
    signed = {row["id"]: (row["transport"], row["signed_by"]) for row in shown["data"]}
    assert (signed["harness-codex"], signed["local"]) == (("component", "author"), ("built in", None))
    assert [row["file"].rsplit("/", 1)[1] for row in shown["refused"]] == ["local.wasm"] and "not signed" in shown["refused"][0]["reason"]
    row = next(row for row in json.loads(core.cli("plugin", "list", "--json").stdout) if row["id"] == "local")
    assert row["state"] == "refused by the running Core" and "not signed" in row["reason"]
    # Daemons, in a sandbox and outside, judge it the same way.
    client = client_of(core)
    for placement in ("openai_hosted", "none"):
        session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input="hello")
        settled(client, session.id)
        served = json.loads(core.cli("session", "show", session.id, "--json").stdout)["diagnostics"]["adapter"]
        assert served["digest"] == next(row["digest"] for row in shown["data"] if row["id"] == "harness-codex")
