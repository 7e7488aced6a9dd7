"""Rules of the public API and of administration that are one request each: what is asked, and what exactly is answered."""

import json
import uuid

import pytest

import berth
from berth import MODEL, script, timeline, until
from conftest import client_of
from test_sessions import message, settled

NOBODY = uuid.UUID(int=1)


@pytest.fixture(scope="module")
def project(fast):
    return next(project["id"] for project in fast.admin("GET", "/projects")[2]["data"] if project["name"] == "default")


@pytest.fixture(scope="module")
def stranger(fast):
    """The key of another Project."""
    other = fast.admin("POST", "/projects", {"name": "stranger"})[2]["id"]
    return fast.admin("POST", f"/projects/{other}/keys", {"name": "k"})[2]["key"]


@pytest.fixture(scope="module")
def done(fast):
    """A Session whose one Turn has ended."""
    client = client_of(fast)
    made = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input=timeline({"say": "hello"}))
    settled(client, made.id)
    return made.id


def error_of(answer):
    error = answer["error"]
    # W-ERR-1: always these four, and never `details`.
    assert set(error) == {"message", "type", "param", "code"}, error
    return error


def test_only_a_project_key_opens_the_public_api(fast):
    """W-AUTH-1, W-HDR-3, W-ERR-1, W-ERR-2"""
    bearers = [f"Bearer {key}" for key in ("wrong", "berth_sk_wrong", fast.core_key, f"Bearer {fast.api_key}")]
    for sent in [None, "", "Bearer", f"Basic {fast.api_key}", fast.api_key, *bearers]:
        status, headers, answer = fast.raw("GET", "/v1/agents", headers={"authorization": sent})
        assert (status, headers["www-authenticate"]) == (401, "Bearer"), sent
        assert error_of(answer)["type"] == "invalid_request_error", answer
    # W-ADM-2
    status, headers, answer = fast.raw("GET", "/core/v1/projects", key=fast.api_key)
    error = answer["error"]
    assert (status, error["code"], error["message"]) == (401, "invalid_admin_key", "A valid Core key is required as the bearer credential.")
    # OPS-080: liveness asks for nothing.
    assert fast.raw("GET", "/healthz", headers={"authorization": None})[0] == 200


def test_no_answer_is_one_that_clients_retry_or_give_up_on(fast):
    """W-ERR-5: none of these statuses is ever answered on `/v1`."""
    document = fast.raw("GET", "/openapi.json")[2]
    assert document["servers"][0]["url"].endswith("/v1"), document["servers"]
    public = document["paths"]
    statuses = {status for operations in public.values() for operation in operations.values() for status in operation["responses"]}
    assert len(public) > 30 and "400" in statuses and "404" in statuses
    assert not statuses & {"403", "408", "422", "429"}


@pytest.mark.parametrize(
    "body, param",
    [
        ({"Model": MODEL}, "Model"),
        ({"model": MODEL, "Metadata": {}}, "Metadata"),
        ({"model": MODEL, "reasoning": {"Effort": "low"}}, "reasoning.Effort"),
        ({"model": MODEL, "id": "agent_x"}, "id"),
        ({"model": MODEL, "reasoning": {"effort": "extreme"}}, "reasoning.effort"),
        ({"model": MODEL, "text": {"verbosity": "loud"}}, "text.verbosity"),
        ({"model": MODEL, "service_tier": "royal"}, "service_tier"),
    ],
    ids=str,
)
def test_names_and_words_match_exactly(fast, body, param):
    """W-BODY-9, S-AG-2"""
    before = fast.raw("GET", "/v1/agents")[2]
    status, _, answer = fast.raw("POST", "/v1/agents", body)
    assert (status, error_of(answer)["param"]) == (400, param), answer
    assert fast.raw("GET", "/v1/agents")[2] == before


def test_every_word_of_an_enumeration_is_saved(fast):
    """S-AG-2, S-AG-8: what the shape allows is saved, whether or not anything can run it."""
    words = {
        ("service_tier",): ["auto", "default", "flex", "priority", "fast"],
        ("reasoning", "effort"): ["none", "minimal", "low", "medium", "high", "xhigh", "max"],
        ("text", "verbosity"): ["low", "medium", "high"],
    }
    for path, values in words.items():
        for value in values:
            member = value if len(path) == 1 else {path[1]: value}
            status, _, agent = fast.raw("POST", "/v1/agents", {"model": MODEL, path[0]: member})
            assert status == 201, (path, value, agent)
            shown = agent[path[0]] if len(path) == 1 else agent[path[0]][path[1]]
            assert shown == value
            assert fast.raw("DELETE", f"/v1/agents/{agent['id']}")[0] == 200


def test_a_session_is_not_changed_by_what_happens_to_its_agent(fast):
    """S-AG-11, W-META-4"""
    client = client_of(fast)
    agent = client.beta.agents.create(model=MODEL, name="first", instructions="as it was", metadata={"of": "the agent"})
    said = timeline({"say": "hello"})
    session = client.beta.agents.sessions.create(agent_id=agent.id, environment={"type": "none"}, metadata={"of": "the session"}, input=said)
    settled(client, session.id)
    path = f"/v1/agents/sessions/{session.id}"
    before = fast.raw("GET", path)[2]
    assert before["metadata"] == {"of": "the session"} and before["agent"]["instructions"] == "as it was"
    client.beta.agents.update(agent.id, name="second", instructions="as it is")
    assert fast.raw("GET", path)[2]["agent"] == before["agent"]
    client.beta.agents.delete(agent.id)
    assert fast.raw("GET", path)[2] == before
    client.beta.agents.sessions.events.create(session.id, events=[message(timeline({"say": "still here"}))])
    settled(client, session.id)


def test_the_metadata_of_a_vault_is_bounded_as_a_whole(fast):
    """W-META-5"""
    many = {f"{'k' * 100}{n}": "v" * 500 for n in range(64)}
    status, _, vault = fast.raw("POST", "/v1/vaults", {"name": "v", "metadata": many})
    assert (status, vault["metadata"]) == (201, many), vault
    assert fast.raw("DELETE", f"/v1/vaults/{vault['id']}")[0] == 200
    for wrong in ({"a": 1}, {"a": None}, {"a": {}}, {"a": "v" * 65_536}):
        status, _, answer = fast.raw("POST", "/v1/vaults", {"name": "v", "metadata": wrong})
        assert status == 400 and error_of(answer)["param"].startswith("metadata"), answer


def test_tags_of_the_platform_are_tags(fast):
    """API-080, API-083, API-084: stored and returned like any other, and nothing comes of them."""
    tags = {"apipi.session_kind": "remote", "apipi.actor_type": "schedule", "apipi.source": "mail", "apipi.unknown": "x", "plain": "y"}
    client = client_of(fast)
    agent = client.beta.agents.create(model=MODEL, metadata=tags)
    assert agent.metadata == tags
    session = client.beta.agents.sessions.create(agent_id=agent.id, environment={"type": "none"}, metadata=tags, input=timeline({"say": "hello"}))
    settled(client, session.id)
    assert client.beta.agents.sessions.retrieve(session.id).metadata == tags
    listed = client.beta.agents.sessions.list(agent_id=agent.id).data
    assert [found.metadata for found in listed] == [tags]


def test_an_artifact_list_takes_any_environment(fast, done):
    """W-LIST-9"""
    path = f"/v1/agents/sessions/{done}/artifacts"
    whole = fast.raw("GET", path)
    assert whole[0] == 200
    for environment in ("no-environment", f"env_{NOBODY.hex}"):
        status, _, page = fast.raw("GET", f"{path}?environment_id={environment}")
        assert (status, page["data"], page["has_more"]) == (200, [], False)
    assert fast.raw("GET", f"{path}?environment_id=")[2] == whole[2]


def test_an_environment_is_made_by_a_session_alone(fast):
    """W-ROUTE-3"""
    status, _, answer = fast.raw("POST", "/v1/agents/environments", {"type": "openai_hosted"})
    assert status in (404, 405) and error_of(answer)


def test_a_turn_that_was_just_admitted_keeps_its_session(fast):
    """S-DEL-6, S-TURN-1: the Turn is in the transaction of the 202, and there is one at a time."""
    client = client_of(fast)
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input=timeline({"say": "first"})).id
    settled(client, session)
    path = f"/v1/agents/sessions/{session}"
    said = {"events": [message(timeline({"await_steers": 1}, {"say": "done"}))]}
    assert fast.raw("POST", path + "/events", said)[0] == 202
    status, _, answer = fast.raw("DELETE", path)
    assert (status, error_of(answer)["type"]) == (409, "conflict_error"), answer
    assert len(client.beta.agents.sessions.turns.list(session).data) == 2
    # Before the harness has begun, a message would be part of what it begins with.
    until(lambda: client.beta.agents.sessions.turns.list(session).data[0].status == "in_progress", "the Turn runs")
    client.beta.agents.sessions.events.create(session, events=[message("go on")])
    settled(client, session)
    assert len(client.beta.agents.sessions.turns.list(session).data) == 2
    assert fast.raw("DELETE", path)[0] == 200


def test_a_stream_ends_a_turn_in_one_order(fast):
    """S-SSE-3, S-SSE-4, S-SEQ-4, S-ITEM-4: Items, then the Turn, then the Session; no event looks like an error to a client."""
    client = client_of(fast)
    stream = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "none"}, input=timeline({"say": "hello"}), stream=True)
    events = [event.to_dict() for event in stream]
    names = [event["type"] for event in events]
    assert not any(event.get("error") for event in events)
    assert not any("waiting" in name for name in names), names
    end = names.index("agent.session.turn.completed")
    assert names[end:] == ["agent.session.turn.completed", "agent.session.idle"], names
    finished = [place for place, name in enumerate(names) if name.endswith("item.done")]
    assert finished and max(finished) < end
    session = next(event["session"]["id"] for event in events if event.get("session"))
    items = fast.raw("GET", f"/v1/agents/sessions/{session}/items")[2]["data"]
    assert items and all(item["id"] and item["type"] and item["turn_id"] for item in items)


def test_a_stream_is_only_got(fast, done):
    """S-LS-6"""
    path = f"/v1/agents/sessions/{done}/events"
    assert fast.raw("HEAD", path)[0] == 405
    status, headers, answer = fast.raw("GET", f"/v1/agents/sessions/asess_{NOBODY.hex}/events", headers={"accept": "text/event-stream"})
    assert status == 404 and headers["content-type"] == "application/json" and error_of(answer)


def test_nothing_of_one_project_is_seen_from_another(fast, stranger, done):
    """S-ITEM-9, S-TURN-4, OPS-045: foreign, missing and malformed ids are one answer."""
    base = "/v1/agents/sessions"
    client = client_of(fast)
    turn = client.beta.agents.sessions.turns.list(done).data[0].id
    for path in ("", "/turns", "/items", "/artifacts", "/subagents", "/events", f"/turns/{turn}"):
        foreign = fast.raw("GET", f"{base}/{done}{path}", key=stranger)
        assert foreign[0] == 404, (path, foreign)
        missing = fast.raw("GET", f"{base}/asess_{NOBODY.hex}{path}", key=stranger)
        assert foreign[2] == missing[2], path
    for other in (f"turn_{NOBODY.hex}", "no-turn"):
        assert fast.raw("GET", f"{base}/{done}/turns/{other}")[0] == 404


def test_templates_are_of_the_beta_and_skills_are_not(fast):
    """ENV-434, ENV-511"""
    for path, needs in (("/v1/agents/environments/templates", True), ("/v1/skills", False)):
        with_beta = fast.raw("GET", path)[0]
        without = fast.raw("GET", path, headers={"openai-beta": None})[0]
        assert with_beta == 200 and (without == 400) == needs, (path, without)


def test_vaults_and_credentials_have_their_shapes(fast):
    """VLT-010, VLT-011, VLT-013 to VLT-016, VLT-004: nothing is contacted, nothing of a secret is shown."""
    status, _, vault = fast.raw("POST", "/v1/vaults", {"name": "shapes"})
    assert (status, vault["object"]) == (201, "vault")
    path = f"/v1/vaults/{vault['id']}"
    assert fast.raw("GET", path)[2] == vault
    assert vault["id"] in [found["id"] for found in fast.raw("GET", "/v1/vaults")[2]["data"]]
    auth = {"type": "static_bearer", "token": "the-first-token", "mcp_server_url": "https://nobody.invalid/mcp"}
    status, _, credential = fast.raw("POST", path + "/credentials", {"name": "c", "auth": auth})
    assert (status, credential["object"]) == (201, "vault.credential"), credential
    one = f"{path}/credentials/{credential['id']}"
    assert fast.raw("GET", one)[2] == credential
    assert [found["id"] for found in fast.raw("GET", path + "/credentials")[2]["data"]] == [credential["id"]]
    assert "the-first-token" not in json.dumps([credential, fast.raw("GET", one)[2]])
    assert fast.raw("DELETE", one)[2] == {"id": credential["id"], "object": "vault.credential.deleted", "deleted": True}
    assert fast.raw("GET", one)[0] == 404
    assert fast.raw("DELETE", path)[0] == 200


def test_projects_and_keys_have_their_shapes(fast):
    """OPS-021, OPS-024 to OPS-026, OPS-030, OPS-033, OPS-005"""
    status, _, project = fast.admin("POST", "/projects", {"name": "shapes"})
    assert status == 201 and set(project) >= {"id", "name", "created_at", "archived_at", "active_key_count"}
    assert str(uuid.UUID(project["id"])) == project["id"] and project["active_key_count"] == 0
    keys = f"/projects/{project['id']}/keys"
    status, _, key = fast.admin("POST", keys, {"name": "k"})
    assert status == 201 and set(key) >= {"id", "project_id", "name", "prefix", "created_at", "revoked_at", "key"}
    listed = fast.admin("GET", keys)[2]
    assert listed["has_more"] is False and [found["id"] for found in listed["data"]] == [key["id"]]
    assert "key" not in listed["data"][0] and key["key"].startswith(listed["data"][0]["prefix"])
    # The plain key is nowhere.
    assert key["key"] not in json.dumps(fast.tables(), default=str)
    assert fast.raw("GET", "/v1/agents", key=key["key"])[0] == 200
    assert fast.admin("DELETE", f"{keys}/{key['id']}")[2] == {"id": key["id"], "deleted": True}
    assert fast.raw("GET", "/v1/agents", key=key["key"])[0] == 401


def test_diagnostics_are_private_and_of_what_is_there(fast, project, done):
    """S-DIA-1, S-DIA-3, OPS-050, OPS-053"""
    base = f"/core/v1/projects/{project}/sessions"
    status, headers, shown = fast.raw("GET", f"{base}/{done}/diagnostics", key=fast.core_key)
    assert (status, headers["cache-control"], shown["object"], shown["failure"]) == (200, "no-store", "core.session_diagnostics", None)
    turn = client_of(fast).beta.agents.sessions.turns.list(done).data[0].id
    status, headers, shown = fast.raw("GET", f"{base}/{done}/turns/{turn}/diagnostics", key=fast.core_key)
    assert (status, headers["cache-control"], shown["object"]) == (200, "no-store", "core.turn_diagnostics")
    assert shown["items"] and all(set(item) >= {"item_id", "started_at", "completed_at", "observed_duration_ms"} for item in shown["items"])
    assert shown["items_truncated"] is False and "hello" not in json.dumps(shown)
    for path in (f"{base}/asess_{NOBODY.hex}/diagnostics", f"{base}/nothing/diagnostics", f"{base}/{done}/turns/nothing/diagnostics", f"/core/v1/projects/{NOBODY}/sessions/{done}/diagnostics"):
        assert fast.raw("GET", path, key=fast.core_key)[0] == 404, path
    assert fast.raw("GET", f"{base}/{done}/diagnostics")[0] == 401


def test_content_is_only_got(fast, project):
    """OPS-042"""
    for path in (f"/core/v1/projects/{project}/skills/skill_{NOBODY.hex}/content", f"/v1/agents/sessions/asess_{NOBODY.hex}/artifacts/art_{NOBODY.hex}/content"):
        key = fast.core_key if path.startswith("/core") else fast.api_key
        assert fast.raw("HEAD", path, key=key)[0] in (404, 405), path


def test_no_503_tells_when_to_come_back(tmp_path, start_core):
    """W-HDR-5, W-ERR-2"""
    core = start_core(harnesses=berth.scripted_harness(tmp_path / "h"))
    core.cli("provider", "clear")
    status, headers, answer = core.raw("POST", "/v1/agents/sessions", {"agent": {"model": MODEL}, "environment": {"type": "openai_hosted"}})
    assert status == 503 and "retry-after" not in headers, headers
    assert error_of(answer)["type"] == "server_error"
