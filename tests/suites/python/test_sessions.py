"""Sessions on real Codex: the main job, seen by the official SDK."""

import threading

import openai
import pytest

from berth import MODEL, script, steps, until
from conftest import client_of
from events import check_order, first, kinds, text_of


def create(client, placement, text, **more):
    return client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": placement}, input=text, **more)


def settled(client, session_id, turns=1):
    """The Session after its n-th Turn has ended. Its input may wait as a reservation before, while the status is still `idle`."""

    def over():
        listed = client.beta.agents.sessions.turns.list(session_id).data
        session = client.beta.agents.sessions.retrieve(session_id)
        ended = len(listed) >= turns and listed[0].status in ("completed", "failed", "cancelled")
        return session if (ended and session.status == "idle") or session.status == "failed" else None

    return until(over, f"session {session_id} has ended {turns} Turns")


def last_turn(client, session_id):
    listed = client.beta.agents.sessions.turns.list(session_id, limit=1).data
    return listed[0] if listed else NO_TURN


class NO_TURN:
    """Stands for the Turn that is not there yet."""

    status = None


def test_the_main_job(core, client, workspace):
    """create with `stream`: Environment states, a real command, its output, the answer, in order (SB-2)."""
    text = script(steps({"think": "Let me look."}, {"shell": "echo $((6*7)) | tee answer.txt"}), steps({"say": "The answer is {{output}}."}))
    events = list(create(client, workspace, text, stream=True))
    created, ended = check_order(events)
    assert len(created) == 1 and created == ended
    seen = kinds(events)
    assert seen[0] == "agent.session.created" and seen[-1] == "agent.session.idle"
    for kind in ("environment.pending", "environment.ready", "in_progress", "turn.created", "turn.in_progress", "turn.completed"):
        assert f"agent.session.{kind}" in seen, kind
    assert seen.index("agent.session.turn.completed") < seen.index("agent.session.idle")
    assert text_of(events) == "The answer is 42."
    deltas = [event.delta for event in events if event.type == "agent.session.turn.output_text.delta"]
    assert "".join(deltas).endswith("The answer is 42.") and len(deltas) > 1

    session_id = first(events, "agent.session.created").session.id
    items = list(client.beta.agents.sessions.items.list(session_id, order="asc"))
    assert [item.type for item in items] == ["message", "reasoning", "command_execution", "message"]
    command = items[2]
    assert (command.status, command.exit_code, command.output.strip()) == ("completed", 0, "42")
    assert "tee answer.txt" in command.command
    turn = last_turn(client, session_id)
    assert (turn.status, turn.error, turn.subagent_id) == ("completed", None, None)
    assert turn.usage.total_tokens > 0
    assert client.beta.agents.sessions.turns.retrieve(turn.id, session_id=session_id) == turn
    session = client.beta.agents.sessions.retrieve(session_id)
    assert session.status == "idle" and session.usage.total_tokens == turn.usage.total_tokens

    if workspace == "openai_hosted":
        environment = client.beta.agents.environments.retrieve(session.environment.id)
        assert (environment.object, environment.status) == ("agent.environment", "connected")
        assert (core.workspace(session_id) / "workspace/answer.txt").read_text() == "42\n"


def test_a_second_turn_continues_the_conversation(client, placement, model):
    session = create(client, placement, "remember the word heliotrope")
    settled(client, session.id)
    client.beta.agents.sessions.events.create(session.id, events=[message("what was the word?")])
    settled(client, session.id, turns=2)
    assert last_turn(client, session.id).status == "completed"
    asked = [request for request in model.requests() if request["message"] == "what was the word?"]
    assert "heliotrope" in str(asked[-1]["body"]["input"]), "the native conversation was lost"


def message(text):
    return {"type": "agent.session.input.message", "input": [{"role": "user", "content": [{"type": "input_text", "text": text}]}]}


def test_a_message_during_a_turn_steers_it(client, placement, model):
    name = "steer-" + placement
    # Streams for three seconds: a message that meets the end of its Turn is not applied, and fails it (RP-12.6).
    first_part = " ".join(["first part"] * 30)
    session = create(client, placement, script(steps({"hold": name}, {"say": {"text": first_part, "every_ms": 50}})))
    model.until_holding(name)
    client.beta.agents.sessions.events.create(session.id, events=[message("and the second part")])
    model.release(name)
    settled(client, session.id)
    turns = client.beta.agents.sessions.turns.list(session.id).data
    assert [turn.status for turn in turns] == ["completed"], "steering must not make another Turn"
    items = list(client.beta.agents.sessions.items.list(session.id, order="asc"))
    said = ["".join(part.text for part in item.content) for item in items if item.type == "message"]
    # The user's Item stands where it was admitted, before what the agent said after it.
    assert said[1:] == ["and the second part", first_part, "You said: and the second part"]


def test_cancel_ends_the_turn_and_the_next_one_works(client, workspace, model):
    name = "cancel-" + workspace
    session = create(client, workspace, script(steps({"shell": "sleep 300"}), steps({"say": "never"})))
    until(lambda: any(item.type == "command_execution" for item in client.beta.agents.sessions.items.list(session.id)), "the command runs")
    client.beta.agents.sessions.events.create(session.id, events=[{"type": "agent.session.input.cancel"}])
    until(lambda: last_turn(client, session.id).status == "cancelled", "the Turn is cancelled")
    settled(client, session.id)
    client.beta.agents.sessions.events.create(session.id, events=[message("go on " + name)])
    until(lambda: last_turn(client, session.id).status == "completed", "the next Turn completes")


def test_a_stream_that_is_opened_later_follows_live(client, placement):
    session = create(client, placement, "hello")
    settled(client, session.id)
    ready, got = threading.Event(), []

    def follow():
        with client.beta.agents.sessions.events.stream(session.id) as stream:
            ready.set()
            for event in stream:
                got.append(event)
                if event.type == "agent.session.idle" and text_of(got):
                    return

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    assert ready.wait(30)
    client.beta.agents.sessions.events.create(session.id, events=[message("again")])
    follower.join(60)
    assert not follower.is_alive(), kinds(got)
    assert text_of(got) == "You said: again"


def test_delete_leaves_nothing(core, client, placement):
    session = create(client, placement, "hello")
    settled(client, session.id)
    folder = core.workspace(session.id)
    if placement == "openai_hosted":
        assert folder and core.processes(session.id), "a hosted Session has a folder and processes"
    deleted = client.beta.agents.sessions.delete(session.id)
    assert (deleted.id, deleted.object) == (session.id, "agent.session.deleted")
    with pytest.raises(openai.NotFoundError):
        client.beta.agents.sessions.retrieve(session.id)
    if folder:
        until(lambda: not folder.exists(), "the Session's folder is gone")
        until(lambda: not core.processes(session.id), "its processes are gone")


def test_shapes_of_input(client, core, placement):
    # No input: the Session waits.
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"})
    assert session.status == "idle" and session.usage is None
    client.beta.agents.sessions.delete(session.id)
    # An array of messages.
    messages = [{"role": "user", "content": [{"type": "input_text", "text": "one"}]}, {"role": "user", "content": [{"type": "input_text", "text": "two"}]}]
    session = create(client, placement, messages)
    settled(client, session.id)
    items = list(client.beta.agents.sessions.items.list(session.id, order="asc"))
    assert [item.content[0].text for item in items if item.type == "message" and item.role == "user"] == ["one", "two"]


def test_a_saved_agent_is_frozen_into_its_session(client, placement):
    agent = client.beta.agents.create(model=MODEL, name="frozen", instructions="Be kind.")
    session = client.beta.agents.sessions.create(agent_id=agent.id, environment={"type": placement}, input="hi")
    client.beta.agents.update(agent.id, instructions="Be rude.")
    assert client.beta.agents.sessions.retrieve(session.id).agent.instructions == "Be kind."
    assert session.id in [listed.id for listed in client.beta.agents.sessions.list(agent_id=agent.id)]
    settled(client, session.id)
    assert last_turn(client, session.id).agent_id == session.agent.id


def test_metadata_is_replaced(client):
    session = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, metadata={"a": "1"})
    assert client.beta.agents.sessions.update(session.id, metadata={"b": "2"}).metadata == {"b": "2"}
    assert client.beta.agents.sessions.update(session.id, metadata=None).metadata == {}
    client.beta.agents.sessions.delete(session.id)


def test_one_retry_identity_makes_one_session(core):
    """The same key with the omitted Environment and its alias over raw HTTP (ENV-001)."""
    body = {"agent": {"model": MODEL}, "metadata": {"retry": "identity"}}
    headers = {"idempotency-key": "one-and-only"}
    status, _, first_answer = core.raw("POST", "/v1/agents/sessions", body, headers=headers)
    assert status == 201, first_answer
    status, _, second = core.raw("POST", "/v1/agents/sessions", body, headers=headers)
    assert status == 201 and second["id"] == first_answer["id"]
    status, _, conflict = core.raw("POST", "/v1/agents/sessions", {**body, "metadata": {}}, headers=headers)
    assert status == 409, conflict


def test_the_session_provider_beats_the_default(client, workspace, model):
    """`x_agents_core.model_provider`, and the key that reaches it (MDL-006, MDL-027)."""
    provider = {"protocol": "responses", "base_url": model.base_url, "api_key": "sk-session-key"}
    session = create(client, workspace, "with my own provider", extra_body={"x_agents_core": {"model_provider": provider}})
    settled(client, session.id)
    assert last_turn(client, session.id).status == "completed"
    tokens = {request["token"] for request in model.requests() if request["message"] == "with my own provider"}
    assert tokens == {"sk-session-key"}
    assert "sk-session-key" not in client.beta.agents.sessions.retrieve(session.id).model_dump_json()


def test_a_model_that_refuses_fails_the_turn(client, core, placement):
    """The public error says nothing (S-TURN-3); the operator sees the cause (OPS-051)."""
    session = create(client, placement, script({"status": 401}))
    settled(client, session.id)
    turn = last_turn(client, session.id)
    assert (turn.status, turn.error.code, turn.error.message) == ("failed", "internal_error", "The execution could not complete.")
    project = next(project["id"] for project in core.admin("GET", "/projects")[2]["data"] if project["name"] == "default")
    failure = core.admin("GET", f"/projects/{project}/sessions/{session.id}/diagnostics")[2]["failure"]
    assert (failure["code"], failure["params"]) == ("connection_failed", {"http_status": 401}), failure


def test_a_model_stream_that_breaks_is_retried(client, placement):
    session = create(client, placement, script(steps({"say": "whole"}, first=[steps({"say": "half"}, "cut")])))
    settled(client, session.id)
    assert last_turn(client, session.id).status == "completed"
    items = list(client.beta.agents.sessions.items.list(session.id, order="asc"))
    assert [(item.status, item.content[0].text) for item in items if item.type == "message" and item.role == "assistant"][-1] == ("completed", "whole")


def test_unbuilt_members_are_refused_not_ignored(core):
    body = {"agent": {"model": MODEL, "multi_agent": {"enabled": True}}, "environment": {"type": "openai_hosted"}}
    status, _, answer = core.raw("POST", "/v1/agents/sessions", body)
    assert status == 400 and answer["error"]["param"].startswith("agent.multi_agent"), answer


def test_foreign_sessions_do_not_exist(core):
    project = core.admin("POST", "/projects", {"name": "other"})[2]["id"]
    other = core.admin("POST", f"/projects/{project}/keys", {"name": "k"})[2]["key"]
    mine = client_of(core).beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}).id
    missing = core.raw("GET", "/v1/agents/sessions/00000000-0000-4000-8000-000000000000", key=other)
    foreign = core.raw("GET", f"/v1/agents/sessions/{mine}", key=other)
    assert foreign[0] == missing[0] == 404
    assert foreign[2]["error"]["code"] == missing[2]["error"]["code"]
