"""Streams under pressure: readers that come at any moment, and one that does not read (F10, F11)."""

import http.client
import json
import random
import threading
import time

from berth import MODEL, cause, timeline, until
from conftest import client_of
from test_sessions import last_turn, message, settled


class Reader:
    """One event stream of a Session over a socket of its own."""

    def __init__(self, core, session):
        self.connection = http.client.HTTPConnection("127.0.0.1", core.port, timeout=60)
        headers = {"authorization": f"Bearer {core.api_key}", "openai-beta": "agents=v1"}
        self.connection.request("GET", f"/v1/agents/sessions/{session}/events", headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        self.events = []

    def read(self):
        """Reads until the Session is idle or the stream ends; events in order."""
        try:
            for line in self.answer:
                if line.startswith(b"data: ") and line != b"data: [DONE]\n":
                    self.events.append(json.loads(line[6:]))
                    if self.events[-1]["type"] == "agent.session.idle":
                        break
        except (OSError, http.client.HTTPException):
            pass
        self.connection.close()
        return self

    def kept(self, stored):
        """Ids in order. Deltas whose `done` came may be gone from the store (SC-11.6), and only they.

        A reader that fell behind is told so by the last event it gets, which belongs to the stream alone (S-LS-3).
        """
        ids = [event["event_id"] for event in self.events]
        assert len(set(ids)) == len(ids), "an event came twice"
        gone = [event for event in self.events if event["event_id"] not in set(stored)]
        if gone and gone[-1]["type"] == "error":
            assert gone.pop() is self.events[-1], "something came after the stream had ended"
            assert self.events[-1]["error"]["code"] == "stream_interrupted", self.events[-1]
        assert all(event["type"].endswith(".delta") for event in gone), gone
        return [one for one in ids if one in set(stored)]


def hosted(client, text):
    return client.beta.agents.sessions.create(agent={"model": MODEL}, environment={"type": "openai_hosted"}, input=text).id


def test_readers_that_come_at_any_moment_see_every_event_once(fast):
    """F10: nothing falls between what is replayed and what is followed; each reader has a whole end of the same sequence."""
    client = client_of(fast)
    session = hosted(client, "first")
    settled(client, session)
    whole = Reader(fast, session)
    steps = [step for number in range(150) for step in ({"say": f"line {number}"}, {"sleep_ms": 10})]
    steps.append({"await_steers": 1})
    client.beta.agents.sessions.events.create(session, events=[message(timeline(*steps))])
    readers, threads = [], [threading.Thread(target=whole.read, daemon=True)]
    threads[0].start()
    until(lambda: whole.events, "the Turn runs")
    chance = random.Random(10)
    while len(readers) < 40:
        readers.append(Reader(fast, session))
        threads.append(threading.Thread(target=readers[-1].read, daemon=True))
        threads[-1].start()
        time.sleep(chance.uniform(0, 0.03))
    # Only now may the Turn end.
    client.beta.agents.sessions.events.create(session, events=[message("that is all")])
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a reader did not see the end"
    expected = stored(fast, session)
    starts, whole_ends = set(), 0
    for reader in [whole, *readers]:
        got = reader.kept(expected)
        # A reader that is too slow is cut off, and reads again; what it has is whole as far as it goes.
        begin = expected.index(got[0])
        assert got == expected[begin : begin + len(got)], "a hole, a repeat or another order"
        starts.add(begin)
        whole_ends += reader.events[-1]["type"] == "agent.session.idle"
    assert len(starts) > 5, "the readers did not come at different moments"
    assert whole_ends > 5, "nobody saw the end"


def test_a_reader_that_does_not_read_harms_nobody_and_loses_no_end(fast):
    """F11: the other Session is unaffected, memory stays bounded, and the idle reader sees a sequence without a hole."""
    client = client_of(fast)
    loud, quiet = hosted(client, "first"), hosted(client, "first")
    settled(client, loud)
    settled(client, quiet)
    idle, whole = Reader(fast, loud), Reader(fast, loud)
    reading = threading.Thread(target=whole.read, daemon=True)
    reading.start()
    before = resident(fast)
    flood = [{"flood": {"lines": 5000, "bytes": 200}} for _ in range(5)]
    client.beta.agents.sessions.events.create(loud, events=[message(timeline(*flood, {"say": "the end"}))])
    until(lambda: [item for item in client.beta.agents.sessions.items.list(loud) if item.type == "command_execution"], "events are produced")
    for number in range(3):
        other = Reader(fast, quiet)
        client.beta.agents.sessions.events.create(quiet, events=[message(f"still there {number}?")])
        assert "agent.session.turn.completed" in [event["type"] for event in other.read().events], "the other Session's reader was cut"
    settled(client, loud, turns=2)
    assert last_turn(client, loud).status == "completed", (cause(fast, loud), fast.log_tail())
    reading.join(60)
    assert not reading.is_alive()
    grown = resident(fast) - before
    assert grown < 150 << 20, f"{grown >> 20} MiB are held for a reader that does not read"
    # Read before the store is looked at: the store may trim deltas in between, never bring any back.
    idle.read()
    expected = stored(fast, loud)
    got = idle.kept(expected)
    begin = expected.index(got[0])
    assert got == expected[begin : begin + len(got)], "the idle reader has a hole"
    kinds = [event["type"] for event in idle.events]
    told = kinds[-1] == "error"
    assert told or "agent.session.idle" in kinds or "agent.session.turn.completed" not in kinds, "the last event alone was lost"
    # Whoever was cut off reads the end in the history.
    assert client.beta.agents.sessions.turns.list(loud).data[0].status == "completed"


def stored(core, session):
    """Ids of the Session's events in their order."""
    rows = [row for row in core.tables()["events"] if row["session_id"] == session]
    return [row["id"] for row in sorted(rows, key=lambda row: row["number"])]


def resident(core):
    """Bytes of the Core in memory."""
    (line,) = [line for line in open(f"/proc/{core.process.pid}/status") if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024
