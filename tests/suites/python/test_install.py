"""`berth harness install`: the pinned program through npm, from the real registry and from registries that send something else."""

import base64
import hashlib
import http.server
import io
import json
import os
import platform
import subprocess
import tarfile
import threading
import urllib.parse

import pytest

import berth

VERSION = "0.171.0"
MACHINE = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
BUILD = f"{VERSION}-linux-{MACHINE}"


def install(folder, **environment):
    command = [berth.BERTH, "harness", "install", "codex", "--data-dir", folder]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def refused(folder, *said, **environment):
    """The command fails in words, and nothing of it is left where daemons look."""
    done = install(folder, **environment)
    assert done.returncode == 1 and all(part in done.stderr for part in said), done.stderr
    assert [path.name for path in (folder / "harnesses").iterdir() if path.name != ".lock"] == []


def archive(version):
    """A package of this version that holds a program, as npm packs it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        triple = f"{platform.machine()}-unknown-linux-musl"
        files = {"package.json": json.dumps(package(version)), f"vendor/{triple}/bin/codex": "#!/bin/sh\nexit 0\n"}
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


def package(version):
    facts = {"name": "@openai/codex", "version": version}
    if version == VERSION:
        facts["optionalDependencies"] = {f"@openai/codex-linux-{MACHINE}": f"npm:@openai/codex@{BUILD}"}
    return facts


@pytest.fixture
def registry():
    """Another registry. What it `promises` of an archive is what it sends, unless a test changes that."""
    archives = {version: archive(version) for version in (VERSION, BUILD)}

    class Handler(http.server.BaseHTTPRequestHandler):
        promises = dict(archives)
        known = True

        def do_GET(self):
            path = urllib.parse.unquote(self.path)
            version = path.rsplit("/", 1)[-1].removesuffix(".tgz")
            if version in archives:
                return self.send(200, archives[version])
            if path != "/@openai/codex" or not self.known:
                return self.send(404, b'{"error":"not found"}')
            versions = {}
            for one, promised in self.promises.items():
                digest = base64.b64encode(hashlib.sha512(promised).digest()).decode()
                versions[one] = {**package(one), "dist": {"tarball": f"{registry.url}/{one}.tgz", "integrity": f"sha512-{digest}"}}
            return self.send(200, json.dumps({"name": "@openai/codex", "dist-tags": {"latest": VERSION}, "versions": versions}).encode())

        def send(self, status, body):
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    registry = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{registry.server_address[1]}"
    threading.Thread(target=registry.serve_forever, daemon=True).start()
    yield registry
    registry.shutdown()


def of(registry, tmp_path):
    """npm with this registry and a cache of its own."""
    return {"npm_config_registry": registry.url, "npm_config_cache": str(tmp_path / "cache")}


def test_the_pinned_program_is_installed_once(tmp_path):
    first, second = (install(tmp_path / "data") for _ in range(2))
    assert first.returncode == 0 and "codex is installed in " in first.stdout, first.stderr
    assert second.returncode == 0 and "already installed" in second.stdout, second.stderr
    listed = subprocess.run([berth.BERTH, "harness", "list", "--json", "--data-dir", tmp_path / "data"], capture_output=True, text=True, timeout=60)
    assert {(row["id"], row["version"], row["available"]) for row in json.loads(listed.stdout)} == {("codex", VERSION, True)}


def test_another_archive_under_the_pinned_version_is_refused(tmp_path, registry):
    """HAR-002: npm is content with it, since the registry's own checksum fits; what this Berth was proven with is another one."""
    refused(tmp_path / "data", "checksum mismatch", "npm config get registry", **of(registry, tmp_path))


def test_an_archive_that_was_changed_on_its_way_is_refused(tmp_path, registry):
    registry.RequestHandlerClass.promises = {**registry.RequestHandlerClass.promises, BUILD: b"another", VERSION: b"one more"}
    refused(tmp_path / "data", "checksum mismatch", **of(registry, tmp_path))


def test_a_registry_without_the_version_says_so(tmp_path, registry):
    registry.RequestHandlerClass.known = False
    refused(tmp_path / "data", "does not have this version", **of(registry, tmp_path))


def test_a_registry_that_does_not_answer_is_named_soon(tmp_path, registry):
    registry.shutdown()
    registry.server_close()
    refused(tmp_path / "data", "cannot be reached", "npm config get registry", **of(registry, tmp_path))


def test_without_npm_the_way_to_it_is_told(tmp_path):
    refused(tmp_path / "data", "npm is not installed", "Node.js", PATH=str(tmp_path / "nothing"))
