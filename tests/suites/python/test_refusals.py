"""Refused requests write nothing: every table is the same before and after, on both databases (wire.md, S-EV-5, W-ORDER-6)."""

import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from test_crashes import speaking
from test_sessions import message, settled

MISSING = "00000000-0000-4000-8000-000000000000"
# Renewed by themselves, whatever is asked.
NOT_COMPARED = {"lease"}
CANCEL = {"events": [{"type": "agent.session.input.cancel"}]}


@pytest.fixture
def core(tmp_path, database, start_core):
    return start_core(database, harnesses=berth.scripted_harness(tmp_path / "h"))


@pytest.fixture
def unchanged(core):
    """Sends a request that must be refused with this status and compares the whole database."""

    def refuse(expected, method, path, body=None, **more):
        before = core.tables()
        status, _, answer = core.raw(method, path, body, **more)
        after = core.tables()
        assert status == expected, (method, path, body, more, status, answer)
        assert set(before) == set(after) and {"sessions", "turns", "events"} < set(after)
        different = [table for table in after if table not in NOT_COMPARED and before[table] != after[table]]
        assert not different, (method, path, body, {table: [row for row in after[table] if row not in before[table]] for table in different})

    return refuse


def routes(agent, session, turn, environment, project):
    """Every route of this API with a resource that exists, and a body that would be accepted; `None` = it takes none."""
    sessions = f"/v1/agents/sessions/{session}"
    admin = f"/core/v1/projects/{project}"
    return [
        ("GET", "/v1/agents", None), ("POST", "/v1/agents", {"model": MODEL}),
        ("GET", f"/v1/agents/{agent}", None), ("POST", f"/v1/agents/{agent}", {"name": "new"}), ("DELETE", f"/v1/agents/{agent}", None),
        ("GET", "/v1/agents/sessions", None), ("POST", "/v1/agents/sessions", {"agent": {"model": MODEL}, "environment": {"type": "openai_hosted"}}),
        ("GET", sessions, None), ("POST", sessions, {"metadata": {"a": "b"}}), ("DELETE", sessions, None),
        ("GET", sessions + "/events", None), ("POST", sessions + "/events", CANCEL),
        ("GET", sessions + "/turns", None), ("GET", f"{sessions}/turns/{turn}", None), ("GET", sessions + "/items", None),
        ("GET", f"/v1/agents/environments/{environment}", None),
        ("GET", "/core/v1/projects", None), ("POST", "/core/v1/projects", {"name": "another"}), ("POST", admin, {"name": "renamed"}), ("POST", admin + "/archive", None),
        ("GET", admin + "/keys", None), ("POST", admin + "/keys", {"name": "another"}), ("DELETE", f"{admin}/keys/{MISSING}", None),
        ("GET", admin + "/sessions", None), ("GET", f"{admin}/sessions/{session}", None), ("DELETE", f"{admin}/sessions/{session}", None),
        ("GET", f"{admin}/sessions/{session}/turns", None), ("GET", f"{admin}/sessions/{session}/turns/{turn}", None),
        ("GET", f"{admin}/sessions/{session}/items", None), ("GET", f"{admin}/sessions/{session}/diagnostics", None),
        ("GET", f"{admin}/sessions/{session}/turns/{turn}/diagnostics", None), ("GET", "/core/v1/harnesses", None),
        ("PUT", "/core/v1/harnesses/codex/model-configuration", {"model_provider": {"protocol": "responses", "base_url": "https://x.test/v1", "api_key": "k"}, "model": "m"}),
        ("DELETE", "/core/v1/harnesses/codex/model-configuration", None),
        ("GET", "/core/v1/sandbox-provider", None), ("PUT", "/core/v1/sandbox-provider", {"expected_generation": 1, "provider": "local"}),
        ("GET", "/core/v1/plugins", None), ("POST", "/core/v1/plugins/reload", None),
    ]


@pytest.fixture
def made(core):
    """An Agent, a Session with one Turn, and the Project."""
    client = client_of(core)
    agent = client.beta.agents.create(model=MODEL).id
    session = client.beta.agents.sessions.create(agent_id=agent, environment={"type": "openai_hosted"}, input="first")
    settled(client, session.id)
    project = next(project["id"] for project in core.admin("GET", "/projects")[2]["data"] if project["name"] == "default")
    turn = client.beta.agents.sessions.turns.list(session.id).data[0].id
    # The last observation of the Runtime is behind us.
    until(lambda: client.beta.agents.environments.retrieve(session.environment.id).status == "connected", "the Environment is connected")
    return agent, session.id, turn, session.environment.id, project


def test_every_route_refuses_without_a_trace(core, made, unchanged):
    other = core.admin("POST", f"/projects/{core.admin('POST', '/projects', {'name': 'other'})[2]['id']}/keys", {"name": "k"})[2]["key"]
    for method, path, body in routes(*made):
        public = path.startswith("/v1")
        unchanged(401, method, path, body, key="berth_sk_wrong")
        unchanged(401, method, path, body, key=core.core_key if public else core.api_key)
        if public:
            unchanged(400, method, path, body, headers={"openai-beta": "agents=v0"})
            if any(one in path for one in made[:4]):
                unchanged(404, method, path, body, key=other)
        key = core.api_key if public else core.core_key
        for one in made:
            # The Sessions of a Project that is not there are an empty list.
            if one in path and (method, path) != ("GET", f"/core/v1/projects/{made[4]}/sessions"):
                unchanged(404, method, path.replace(one, MISSING), body, key=key)
        if body is not None:
            unchanged(400, method, path, b"{", key=key)
            unchanged(400, method, path, b"[]", key=key)
            unchanged(400, method, path, {**body, "never_heard_of": 1}, key=key)
            unchanged(400, method, path, body, key=key, headers={"content-type": "text/plain"})
        unchanged(405, "PATCH", path, body, key=key)
        if method == "GET" and path.endswith(("/agents", "/sessions", "/turns", "/items")) and public:
            unchanged(400, method, path + "?limit=x", key=key)
            unchanged(400, method, path + "?order=sideways", key=key)
    unchanged(404, "GET", "/v1/agents/never/heard/of")


BAD_SESSIONS = [
    {"agent": {"model": 7}},
    {"agent_id": 7},
    {"agent": {"model": MODEL}, "environment": {"type": "moon"}},
    {"agent": {"model": MODEL}, "environment": {"type": "none"}},
    {"agent": {"model": MODEL}, "input": ""},
    {"agent": {"model": MODEL}, "input": []},
    {"agent": {"model": MODEL}, "input": [{"role": "system", "content": "x"}]},
    {"agent": {"model": MODEL}, "metadata": {"k": 1}},
    {"agent": {"model": MODEL}, "metadata": {"k" * 65: "v"}},
    {"agent": {"model": MODEL}, "stream": "yes"},
    {"agent": {"model": MODEL, "multi_agent": {"enabled": True}}},
    {"agent": {"model": MODEL, "tools": [{"type": "function", "name": ""}]}},
    {"agent": {"model": MODEL}, "x_agents_core": {"harness": "never_heard_of"}},
    {"agent": {"model": MODEL}, "x_agents_core": {"model_provider": {"protocol": "responses", "base_url": "http://169.254.169.254/", "api_key": "k"}}},
    {"agent": {"model": MODEL}, "x_agents_core": {"model_provider": {"protocol": "responses", "base_url": "https://x.test/v1"}}},
]
BAD_EVENTS = [
    {},
    {"events": []},
    {"events": [{"type": "never.heard.of"}]},
    {"events": [message("x"), {"type": "agent.session.input.cancel"}]},
    {"events": [message("x")] * 65},
    {"events": [{"type": "agent.session.input.message"}]},
    {"events": [{"type": "agent.session.input.message", "input": [{"role": "assistant", "content": "x"}]}]},
    {"events": [{"type": "agent.session.input.message", "input": [{"role": "user", "content": [{"type": "input_text"}]}]}]},
    {"events": [{"type": "agent.session.input.function_result", "call_id": "never", "output": "x"}]},
]


def test_bad_input_writes_nothing(core, made, unchanged):
    agent, session = made[0], made[1]
    for body in BAD_SESSIONS:
        unchanged(400, "POST", "/v1/agents/sessions", body, headers={"idempotency-key": "refused"})
    unchanged(404, "POST", "/v1/agents/sessions", {"agent_id": MISSING, "environment": {"type": "openai_hosted"}})
    for body in BAD_EVENTS:
        unchanged(400, "POST", f"/v1/agents/sessions/{session}/events", body, headers={"idempotency-key": "refused"})
    for body in ({"metadata": 1}, {"metadata": {"k": None}}, {"name": "x"}):
        unchanged(400, "POST", f"/v1/agents/sessions/{session}", body)
    for body in ({"model": None}, {"metadata": []}, {"tools": {}}):
        unchanged(400, "POST", f"/v1/agents/{agent}", body)
    # A key that was only ever refused is free.
    status, _, answer = core.raw("POST", "/v1/agents/sessions", {"agent": {"model": MODEL}}, headers={"idempotency-key": "refused"})
    assert status == 201, answer


def test_conflicts_write_nothing(core, made, unchanged):
    """Refusals that depend on what the Session is doing."""
    session = made[1]
    client = client_of(core)
    path = f"/v1/agents/sessions/{session}"
    body = {"events": [message(timeline({"begin": "busy"}, "hang"))]}
    assert core.raw("POST", path + "/events", body, headers={"idempotency-key": "one"})[0] == 202
    until(lambda: speaking(client, session), "the Turn runs")
    settled_events(core)
    unchanged(409, "DELETE", path)
    unchanged(409, "POST", path + "/events", {"events": [message("another")]}, headers={"idempotency-key": "one"})
    assert core.raw("POST", path + "/events", CANCEL)[0] == 202
    settled(client, session, turns=2)


def settled_events(core):
    """Nothing is written any more by what was said so far."""
    seen = [None]

    def quiet():
        before, seen[0] = seen[0], core.tables()
        return before is not None and {**before, "lease": 0} == {**seen[0], "lease": 0}

    until(quiet, "the database is quiet")
