"""Every list through the official SDK, in both orders, at every length around the page, while others come and go (F23, W-LIST)."""

import threading

import pytest

import berth
from berth import MODEL
from conftest import client_of
from test_sessions import message

LIMIT = 20
LENGTHS = [0, 1, LIMIT, LIMIT + 1, 250]


@pytest.fixture(scope="module")
def client(tmp_path_factory, model):
    """A Core without any harness: Turns stay queued until they are cancelled, so that hundreds cost nothing."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "none-installed").mkdir()
    server = berth.Server(folder / "data", harnesses=folder / "none-installed").start()
    server.set_default_model(model)
    yield client_of(server)
    server.stop()


@pytest.fixture(scope="module")
def agents(client):
    """Agents with 0, 1, … Sessions."""
    made = {}
    for length in LENGTHS:
        agent = client.beta.agents.create(model=MODEL, name=f"list-{length}").id
        made[length] = (agent, [session(client, agent) for _ in range(length)])
    return made


def session(client, agent):
    """A Session that has had one Turn."""
    made = client.beta.agents.sessions.create(agent_id=agent, environment={"type": "none"}, input="first").id
    client.beta.agents.sessions.events.create(made, events=[{"type": "agent.session.input.cancel"}])
    return made


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("length", LENGTHS)
def test_sessions(client, agents, order, length):
    agent, expected = agents[length]
    found = [session.id for session in client.beta.agents.sessions.list(agent_id=agent, limit=LIMIT, order=order)]
    assert found == (expected if order == "asc" else expected[::-1])
    pages_are_exact(lambda **more: client.beta.agents.sessions.list(agent_id=agent, limit=LIMIT, order=order, **more), found)


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_turns_and_items(client, agents, length):
    """One Turn a message, one Item a Turn; a Session without a Turn has no Items either."""
    made = session(client, agents[0][0])
    turns = run_turns(client, made, length - 1)
    assert len(turns) == length
    for order in ("asc", "desc"):
        expected = turns if order == "asc" else turns[::-1]
        listed = client.beta.agents.sessions.turns.list
        assert [turn.id for turn in listed(made, limit=LIMIT, order=order)] == expected
        pages_are_exact(lambda **more: listed(made, limit=LIMIT, order=order, **more), expected)
        items = list(client.beta.agents.sessions.items.list(made, limit=LIMIT, order=order))
        assert [item.turn_id for item in items] == expected
        pages_are_exact(lambda **more: client.beta.agents.sessions.items.list(made, limit=LIMIT, order=order, **more), [item.id for item in items])
    client.beta.agents.sessions.delete(made)


def test_a_session_without_a_turn_has_empty_lists(client):
    empty = client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}).id
    for listed in (client.beta.agents.sessions.turns.list, client.beta.agents.sessions.items.list):
        for order in ("asc", "desc"):
            pages_are_exact(lambda **more: listed(empty, limit=LIMIT, order=order, **more), [])
    client.beta.agents.sessions.delete(empty)


@pytest.mark.parametrize("length", LENGTHS)
def test_agents_come_and_go(client, length):
    """What was there throughout is found once, in both orders, while others are made and deleted."""
    mine = [client.beta.agents.create(model=MODEL, name="stays").id for _ in range(length)]
    with Others(lambda: client.beta.agents.create(model=MODEL, name="goes").id, client.beta.agents.delete):
        for order in ("asc", "desc"):
            found = [agent.id for agent in client.beta.agents.list(limit=LIMIT, order=order)]
            assert len(found) == len(set(found)), "an Agent came twice"
            stayed = [agent for agent in found if agent in set(mine)]
            assert stayed == (mine if order == "asc" else mine[::-1])
    for agent in mine:
        client.beta.agents.delete(agent)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_sessions_come_and_go(client, agents, order):
    agent, mine = agents[250]
    with Others(lambda: session(client, agent), client.beta.agents.sessions.delete):
        found = [session.id for session in client.beta.agents.sessions.list(agent_id=agent, limit=LIMIT, order=order)]
    assert len(found) == len(set(found)), "a Session came twice"
    assert [session for session in found if session in set(mine)] == (mine if order == "asc" else mine[::-1])


def test_turns_and_items_are_added_while_they_are_read(client, agents):
    made = session(client, agents[0][0])
    turns = run_turns(client, made, 2 * LIMIT)
    with Others(lambda: run_turns(client, made, 1), lambda _: None):
        for order in ("asc", "desc"):
            for listed in (client.beta.agents.sessions.turns.list, client.beta.agents.sessions.items.list):
                found = list(listed(made, limit=5, order=order))
                assert len({one.id for one in found}) == len(found), "one came twice"
                owners = [getattr(one, "turn_id", one.id) for one in found]
                kept = [turn for turn in owners if turn in set(turns)]
                assert kept == (turns if order == "asc" else turns[::-1]), "one was missed that was there throughout"


class Others:
    """Makes and deletes in the background as long as the body runs."""

    def __init__(self, make, delete):
        self.make, self.delete = make, delete
        self.stop, self.failed = threading.Event(), []
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        made = []
        try:
            while not self.stop.is_set():
                made.append(self.make())
                if len(made) > 3:
                    self.delete(made.pop(0))
            for one in made:
                self.delete(one)
        except Exception as error:
            self.failed.append(error)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join(60)
        assert not self.failed, self.failed


def run_turns(client, made, count):
    """So many more Turns, one after another; tells all of the Session, oldest first."""
    for _ in range(count):
        client.beta.agents.sessions.events.create(made, events=[message("next")])
        client.beta.agents.sessions.events.create(made, events=[{"type": "agent.session.input.cancel"}])
    return [turn.id for turn in client.beta.agents.sessions.turns.list(made, limit=100, order="asc")]


def pages_are_exact(page, expected):
    """`has_more`, `first_id` and `last_id` of each page, following the cursors by hand."""
    at, more = 0, {}
    while True:
        got = page(**more)
        ids = [one.id for one in got.data]
        assert ids == expected[at : at + LIMIT]
        assert got.has_more == (at + LIMIT < len(expected))
        assert (got.first_id, got.last_id) == ((ids[0], ids[-1]) if ids else (None, None))
        at += len(ids)
        if not got.has_more:
            return
        more = {"after": got.last_id}
