"""SIGTERM: what is at work ends in the time there is, who waits gets an answer, who reads sees the end (SC-2.9, ENV-197, R9)."""

import signal
import threading

import openai
import pytest

import berth
from berth import MODEL, timeline, until
from conftest import client_of
from events import check_order
from test_sessions import last_turn, message, settled


@pytest.fixture
def draining(tmp_path, model):
    """Makes a Core with the scripted harness and a time for its drain."""

    def make(seconds, *more):
        harnesses = berth.scripted_harness(tmp_path / "h")
        server = berth.Server(tmp_path / "data", harnesses=harnesses, more=["--drain-seconds", str(seconds), *more]).start()
        server.set_default_model(model)
        return server

    return make


class Reading(threading.Thread):
    """Reads a stream to its end."""

    def __init__(self, stream):
        super().__init__()
        self.stream, self.events, self.error = stream, [], None

    def run(self):
        try:
            for event in self.stream:
                self.events.append(event)
        except Exception as error:  # noqa: BLE001: whatever a client sees is what the test is about
            self.error = error

    def types(self):
        return [event.type for event in self.events]


def begun(server, *what):
    """A Session at work with its creation stream and a live one."""
    client = client_of(server)
    created = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, stream=True, input=timeline(*what))
    creation = Reading(created)
    creation.start()
    until(lambda: "agent.session.turn.in_progress" in creation.types(), "the Turn runs")
    session = creation.events[0].session.id
    live = Reading(client.beta.agents.sessions.events.stream(session))
    live.start()
    return session, creation, live


def ended(server, *readers):
    server.process.send_signal(signal.SIGTERM)
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive() and reader.error is None, (reader.error, server.log_tail())
    assert server.process.wait(60) == 0, server.log_tail()


def test_a_turn_that_ends_in_time_is_seen_to_its_end(draining):
    server = draining(20)
    session, creation, live = begun(server, {"sleep_ms": 1500}, {"say": "done in time"})
    ended(server, creation, live)
    check_order(creation.events)
    assert "agent.session.turn.completed" in creation.types() and creation.types()[-1] == "agent.session.idle"
    assert "agent.session.idle" in live.types()
    server.start()
    assert last_turn(client_of(server), session).status == "completed"
    server.stop()


def test_a_turn_that_takes_too_long_is_failed_before_its_readers(draining):
    server = draining(1)
    session, creation, live = begun(server, {"begin": "I will never end"}, "hang")
    ended(server, creation, live)
    assert creation.types()[-2:] == ["agent.session.turn.failed", "agent.session.failed"], creation.types()
    assert "agent.session.failed" in live.types()
    server.start()
    assert last_turn(client_of(server), session).status == "failed"
    server.stop()


def test_input_that_waits_is_answered_and_stays(draining):
    """R9: 503, the input is kept and runs after the restart, once."""
    server = draining(2, "--execution-concurrency", "1")
    client = client_of(server)
    first = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input="one")
    settled(client, first.id)
    _, creation, live = begun(server, {"begin": "busy"}, "hang")
    answers = []

    def send():
        try:
            client.beta.agents.sessions.events.create(first.id, events=[message("two")])
        except openai.APIStatusError as error:
            answers.append(error)

    waiting = threading.Thread(target=send)
    waiting.start()
    until(lambda: [row for row in server.tables()["reservations"] if row["session_id"] == first.id and row["state"] == "pending"], "the input is reserved")
    assert server.raw("POST", f"/v1/agents/sessions/{first.id}/events", {"events": [message("three")]})[0] == 409
    ended(server, creation, live)
    waiting.join(10)
    assert [(answer.status_code, answer.code, answer.response.headers["x-should-retry"]) for answer in answers] == [(503, "execution_unavailable", "false")]
    server.start()
    client = client_of(server)
    settled(client, first.id, turns=2)
    assert last_turn(client, first.id).status == "completed"
    assert len(client.beta.agents.sessions.turns.list(first.id).data) == 2
    server.stop()
