"""What clients were told: every message that was sent, and whether it was accepted. Compared with what the database holds (reliability 4.1)."""

import json
import re
import threading
from collections import Counter

CREATION = re.compile(r"^/v1/agents/sessions$")
EVENTS = re.compile(r"^/v1/agents/sessions/([^/]+)/events$")
# Answers that promise that nothing was written. A 409 may tell the end of a reservation, which keeps its messages.
REFUSED = (400, 401, 403, 404, 405, 413, 415)


class Entry:
    """One request that carries messages; retries with its key are the same one."""

    def __init__(self, texts, session):
        self.texts = texts
        self.session = session
        self.accepted = False
        self.open = 0


class Ledger:
    """All of one Core."""

    def __init__(self):
        self.entries = []
        self.by_key = {}
        self.lock = threading.Lock()
        # Somebody else sends too, whose messages are not entered here.
        self.others_send = False

    def sent(self, method, path, headers, body):
        """Called before a request leaves; the entry is given to `answered`. None for a request without messages."""
        creation, events = CREATION.match(path), EVENTS.match(path)
        if method != "POST" or not (creation or events):
            return None
        try:
            body = json.loads(body)
            texts = texts_of(body["input"]) if creation else [text for event in body["events"] if "input" in event for text in texts_of(event["input"])]
        except (ValueError, KeyError, TypeError):
            return None
        if not texts:
            return None
        key = next((value for name, value in headers.items() if name.lower() == "idempotency-key"), None)
        with self.lock:
            entry = self.by_key.get((path, key)) if key else None
            if entry is None or entry.texts != texts:
                entry = Entry(texts, events and events.group(1))
                self.entries.append(entry)
                if key:
                    self.by_key.setdefault((path, key), entry)
            entry.open += 1
        return entry

    def answered(self, entry, status, session=None):
        """The answer arrived; without one the outcome stays unknown."""
        if entry is None:
            return
        with self.lock:
            entry.session = entry.session or session
            if status < 300:
                entry.accepted = True
            if status in REFUSED:
                entry.open -= 1

    def differences(self, sessions, stored):
        """Accepted messages that are not stored, and stored ones that nobody sent or that are there twice."""
        sessions, told = set(sessions), []
        with self.lock:
            entries = list(self.entries)
        sure, possible = Counter(), Counter()
        some_deleted = any(entry.session and entry.session not in sessions for entry in entries)
        for entry in entries:
            if entry.session and entry.session not in sessions:
                continue
            texts = Counter(entry.texts)
            # A streamed creation does not tell its Session here; if any was deleted, it may have been this one.
            if entry.accepted and (entry.session or not some_deleted):
                sure += texts
                possible += texts
            elif entry.accepted or entry.open > 0:
                possible += texts
        held = Counter(text for _, text in stored)
        for text in sorted(set(held) | set(possible)):
            most = held[text] if self.others_send else possible[text]
            if not sure[text] <= held[text] <= most:
                told.append(f"{text[:200]!r} is stored {held[text]} times; {sure[text]} were accepted, {possible[text]} are possible")
        return told


def texts_of(given):
    if isinstance(given, str):
        return [given]
    return ["".join(part.get("text", part.get("image_url", "")) for part in message["content"]) if isinstance(message["content"], list) else message["content"] for message in given]
