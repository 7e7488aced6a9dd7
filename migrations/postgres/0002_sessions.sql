-- Sessions and everything that belongs to one. `body` is the whole row as the domain defines it (JSON text); the other
-- columns repeat those of its members that queries select, order or constrain by.

-- What a Session was created with, frozen. Referenced, never changed.
CREATE TABLE configurations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    body TEXT NOT NULL,
    sealed_provider BYTEA,
    sealed_environment BYTEA,
    created_at BIGINT NOT NULL
);

CREATE TABLE sessions (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    agent_id TEXT COLLATE "C" NOT NULL,
    configuration_id TEXT COLLATE "C" NOT NULL,
    placement TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT,
    purged_at BIGINT,
    -- Number of the newest event; events of a Session are 1..n without a hole.
    last_event BIGINT NOT NULL,
    -- Deltas up to this number may be absent.
    trimmed_through BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX sessions_of_project ON sessions (project_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX sessions_of_agent ON sessions (project_id, agent_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX sessions_to_purge ON sessions (deleted_at, id) WHERE deleted_at IS NOT NULL AND purged_at IS NULL;

-- Retry identity of a creation; kept for ever (W-IDEM-5).
CREATE TABLE creations (
    project_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, key)
);

CREATE TABLE environments (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES sessions (id),
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    initialization TEXT NOT NULL,
    connection TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX environments_to_initialize ON environments (id) WHERE initialization = 'pending';
CREATE INDEX environments_observed ON environments (id) WHERE connection IN ('registered', 'connected');

CREATE TABLE reservations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    work_seq BIGINT NOT NULL,
    state TEXT NOT NULL,
    deadline BIGINT NOT NULL,
    body TEXT NOT NULL,
    -- Apart from the rest, so that a status can be read without the texts.
    messages TEXT NOT NULL
);
CREATE UNIQUE INDEX reservations_of_session ON reservations (session_id, work_seq);
CREATE UNIQUE INDEX reservations_pending ON reservations (session_id) WHERE state = 'pending';
CREATE INDEX reservations_due ON reservations (deadline, id) WHERE state = 'pending';

CREATE TABLE turns (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    work_seq BIGINT NOT NULL,
    status TEXT NOT NULL,
    live BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX turns_of_session ON turns (session_id, work_seq);
CREATE INDEX turns_listed ON turns (session_id, created_at, id);
CREATE UNIQUE INDEX turns_live ON turns (session_id) WHERE live = 1;
CREATE INDEX turns_queued ON turns (created_at, id) WHERE status = 'queued';
CREATE INDEX turns_claimed ON turns (id) WHERE live = 1;

CREATE TABLE inputs (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns (id),
    position BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX inputs_of_turn ON inputs (turn_id, position);
CREATE INDEX inputs_of_session ON inputs (session_id);

CREATE TABLE items (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns (id),
    position BIGINT NOT NULL,
    native_key TEXT COLLATE "C",
    ended BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX items_of_session ON items (session_id, position);
CREATE UNIQUE INDEX items_by_key ON items (turn_id, native_key) WHERE native_key IS NOT NULL;
CREATE INDEX items_open ON items (turn_id) WHERE ended = 0;
CREATE INDEX items_of_turn ON items (turn_id, position);

CREATE TABLE calls (
    turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns (id),
    call_id TEXT COLLATE "C" NOT NULL,
    session_id TEXT COLLATE "C" NOT NULL,
    position BIGINT NOT NULL,
    open BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (turn_id, call_id)
);
CREATE INDEX calls_of_session ON calls (session_id, call_id);

-- Proof of admission; kept for ever.
CREATE TABLE receipts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    key TEXT COLLATE "C",
    body TEXT NOT NULL
);
CREATE UNIQUE INDEX receipts_by_key ON receipts (session_id, key) WHERE key IS NOT NULL;

CREATE TABLE devices (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    environment_id TEXT COLLATE "C",
    credential TEXT COLLATE "C" NOT NULL UNIQUE,
    revoked BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE bindings (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES sessions (id),
    device_id TEXT COLLATE "C" NOT NULL REFERENCES devices (id),
    release_owed BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX bindings_of_device ON bindings (device_id);
CREATE INDEX bindings_to_release ON bindings (device_id) WHERE release_owed = 1;

CREATE TABLE allocations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL,
    environment_id TEXT COLLATE "C" NOT NULL UNIQUE,
    device_id TEXT COLLATE "C" NOT NULL,
    provider TEXT COLLATE "C" NOT NULL,
    phase TEXT NOT NULL,
    revision BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX allocations_live ON allocations (provider, id) WHERE phase <> 'released';

-- What a sandbox provider remembers; sealed.
CREATE TABLE provider_state (
    provider TEXT COLLATE "C" NOT NULL,
    -- The allocation, or empty for the whole provider.
    scope TEXT NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (provider, scope, key)
);

-- Output files of completed Turns; the bytes are blobs named by digest.
CREATE TABLE artifacts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    turn_id TEXT COLLATE "C" NOT NULL REFERENCES turns (id),
    environment_id TEXT COLLATE "C" NOT NULL,
    path TEXT COLLATE "C" NOT NULL,
    digest TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX artifacts_of_session ON artifacts (session_id, created_at, id);
CREATE UNIQUE INDEX artifacts_of_turn ON artifacts (turn_id, path);
CREATE INDEX artifacts_by_digest ON artifacts (digest) WHERE deleted_at IS NULL;

-- Public events as typed payloads, numbered within their Session.
CREATE TABLE events (
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
    number BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    version BIGINT NOT NULL,
    -- The Item whose text this event carries a piece of; such events may be trimmed after its end.
    delta_of TEXT,
    part BIGINT,
    at BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, number)
);
CREATE INDEX events_deltas ON events (delta_of, number) WHERE delta_of IS NOT NULL;
