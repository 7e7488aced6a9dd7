"""Agents, through the official SDK: create, read, list, update, delete (wire.md, S-AG)."""

import openai
import pytest


def test_an_agent_lives_and_dies(client):
    agent = client.beta.agents.create(model="m-1", name="first", instructions="Be brief.", metadata={"a": "b"})
    assert (agent.object, agent.model, agent.name, agent.instructions) == ("agent", "m-1", "first", "Be brief.")
    assert agent.metadata == {"a": "b"} and agent.tools == [] and agent.service_tier == "auto"
    assert agent.text.format.type == "text" and agent.text.verbosity == "medium"

    assert client.beta.agents.retrieve(agent.id) == agent
    assert agent.id in [listed.id for listed in client.beta.agents.list()]

    changed = client.beta.agents.update(agent.id, name=None, metadata={}, model="m-2")
    assert (changed.name, changed.metadata, changed.model, changed.instructions) == (None, {}, "m-2", "Be brief.")
    assert changed.created_at == agent.created_at

    deleted = client.beta.agents.delete(agent.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (agent.id, True, "agent.deleted")
    with pytest.raises(openai.NotFoundError):
        client.beta.agents.retrieve(agent.id)


def test_lists_are_cut_into_pages_by_cursors(client):
    made = [client.beta.agents.create(model=f"page-{number}").id for number in range(5)]
    page = client.beta.agents.list(limit=2)
    assert page.has_more and len(page.data) == 2
    # Iteration follows the cursors to the end; newest first.
    ids = [agent.id for agent in client.beta.agents.list(limit=2)]
    assert len(ids) == len(set(ids))
    assert [identity for identity in ids if identity in made] == made[::-1]
    ascending = [agent.id for agent in client.beta.agents.list(limit=2, order="asc")]
    assert [identity for identity in ascending if identity in made] == made
    for identity in made:
        client.beta.agents.delete(identity)


@pytest.mark.parametrize("body, param", [({}, "model"), ({"model": 7}, "model"), ({"model": "m", "metadata": {"k": 1}}, "metadata")])
def test_bad_input_names_its_place_and_writes_nothing(core, body, param):
    before = core.raw("GET", "/v1/agents?limit=1")[2]["first_id"]
    status, _, answer = core.raw("POST", "/v1/agents", body)
    assert status == 400 and answer["error"]["param"].startswith(param), answer
    assert core.raw("GET", "/v1/agents?limit=1")[2]["first_id"] == before


def test_keys_and_namespaces_are_kept_apart(core):
    # OPS-001, OPS-002
    assert core.raw("GET", "/v1/agents", key="berth_sk_" + "0" * 64)[0] == 401
    assert core.raw("GET", "/v1/agents", key=core.core_key)[0] == 401
    assert core.raw("GET", "/core/v1/projects", key=core.api_key)[0] == 401
    assert core.raw("GET", "/core/v1/nowhere", key=core.api_key)[0] == 401
    assert core.raw("GET", "/core/v1/nowhere", key=core.core_key)[0] == 404
