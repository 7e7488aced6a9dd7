"""What the suites share: one Core and one model for each harness, and the official SDK as a user writes it."""

import json
import os
import urllib.parse

import openai
import pytest

import berth

STRICT = os.environ.get("BERTH_TEST_STRICT") == "1"
# What does not depend on the Python SDK runs once, beside the pinned one.
collect_ignore = [] if STRICT else ["test_crash_tours.py", "test_javascript.py", "test_node.py", "test_schema.py", "test_two_cores.py"]


@pytest.fixture(autouse=True)
def leaves_no_sandbox(tmp_path):
    """Sandboxes share accounts over all test Cores, and limits count by account: what a test made ends with it."""
    yield
    berth.end_sandboxes(tmp_path)


@pytest.fixture(scope="session")
def model():
    server = berth.Model()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def core(tmp_path_factory, model):
    """A Core with real Codex and a default model."""
    server = berth.Server(tmp_path_factory.mktemp("core") / "data", more=["--execution-concurrency", "16"]).start()
    server.set_default_model(model)
    yield server
    server.stop()
    berth.end_sandboxes(server.folder)


@pytest.fixture(scope="session")
def fast(tmp_path_factory, model):
    """A Core with the scripted harness in the place of Codex."""
    folder = tmp_path_factory.mktemp("fast")
    harnesses = berth.scripted_harness(folder / "harnesses-source")
    server = berth.Server(folder / "data", harnesses=harnesses, more=["--execution-concurrency", "16"]).start()
    server.set_default_model(model)
    yield server
    server.stop()
    berth.end_sandboxes(server.folder)


def client_of(server, **more):
    """The official client, watched by the server's ledger."""

    def sent(request):
        body = request.read() if request.method == "POST" else b""
        request.extensions["ledger"] = server.ledger.sent(request.method, request.url.path, request.headers, body)

    def answered(response):
        entry = response.request.extensions.get("ledger")
        if entry is not None:
            streamed = response.headers.get("content-type", "").startswith("text/event-stream")
            session = None if streamed or response.status_code != 201 else json.loads(response.read())["id"]
            server.ledger.answered(entry, response.status_code, session)

    watched = openai.DefaultHttpxClient(event_hooks={"request": [sent], "response": [answered]})
    # No silent second attempts: a test sees each answer.
    return openai.OpenAI(
        base_url=server.url + "/v1", api_key=server.api_key, max_retries=0, http_client=watched, _strict_response_validation=STRICT, **more
    )


@pytest.fixture
def start_core(tmp_path, model):
    """Starts Cores of the test's own; what is left running is stopped, and every database is checked."""
    started = []

    def start(database=None, harnesses=None, more=(), folder=None, **environment):
        server = berth.Server(folder or tmp_path / "data", database=database, harnesses=harnesses, more=more).start(**environment)
        started.append(server)
        server.set_default_model(model)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request):
    """Each database: none stands for SQLite in the data folder."""
    return request.getfixturevalue("postgres") if request.param == "postgres" else None


@pytest.fixture
def client(core):
    return client_of(core)


@pytest.fixture
def fast_client(fast):
    return client_of(fast)


@pytest.fixture(params=["openai_hosted", "none"])
def placement(request):
    """Where the Session's tools work."""
    return request.param


@pytest.fixture
def workspace():
    """A placement with a workspace, for what needs one: commands, files, an Environment, a provider of the Session's own."""
    return "openai_hosted"


@pytest.fixture
def postgres():
    """A database of its own on the run's PostgreSQL server, as `postgres://…`."""
    url = os.environ.get("BERTH_TEST_POSTGRES_URL")
    if not url:
        pytest.skip("BERTH_TEST_POSTGRES_URL is not set; `cargo xtask test` starts a PostgreSQL")
    import subprocess
    import uuid

    name = "t" + uuid.uuid4().hex[:16]
    subprocess.run(["psql", url, "-qc", f'create database "{name}"'], check=True)
    parts = urllib.parse.urlsplit(url)
    yield urllib.parse.urlunsplit(parts._replace(path="/" + name))
    subprocess.run(["psql", url, "-qc", f'drop database "{name}" with (force)'], check=False)
