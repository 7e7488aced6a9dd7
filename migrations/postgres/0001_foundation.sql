-- Clock, lease, installation, Projects, keys, administration records.
-- Columns are BIGINT, TEXT or BYTEA only: ids and JSON as text, times in Unix milliseconds, truth as 0 or 1.

-- Added to the database clock; always 0 outside builds that move time in tests.
CREATE TABLE clock (
    id BIGINT NOT NULL PRIMARY KEY,
    offset_ms BIGINT NOT NULL
);
INSERT INTO clock (id, offset_ms) VALUES (1, 0);

-- The execution lease: one row. Execution writes of another epoch do nothing.
CREATE TABLE lease (
    id BIGINT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    owner TEXT COLLATE "C",
    expires_at BIGINT NOT NULL
);
INSERT INTO lease (id, epoch, owner, expires_at) VALUES (1, 0, NULL, 0);

CREATE TABLE installation (
    id BIGINT NOT NULL PRIMARY KEY,
    installation_id TEXT COLLATE "C" NOT NULL,
    fingerprint_key BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE projects (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    archived_at BIGINT
);

-- Only the digest of a key is stored.
CREATE TABLE api_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    prefix TEXT NOT NULL,
    digest TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);
CREATE INDEX api_keys_of_project ON api_keys (project_id, id);

-- Successful public writes by their key. Never bodies, secrets or paths.
CREATE TABLE write_operations (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL,
    key_id TEXT COLLATE "C" NOT NULL,
    action TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    parent_id TEXT COLLATE "C",
    request_id TEXT COLLATE "C",
    trace_id TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);
CREATE INDEX write_operations_of_project ON write_operations (project_id, created_at, id);
CREATE INDEX write_operations_of_resource ON write_operations (resource_type, resource_id);

-- Administrator writes.
CREATE TABLE audit_log (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C",
    admin_credential_id TEXT NOT NULL,
    actor_label TEXT,
    action TEXT NOT NULL,
    resource_type TEXT NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    request_id TEXT COLLATE "C",
    trace_id TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);
CREATE INDEX audit_log_by_time ON audit_log (created_at, id);

-- The model that a harness uses when neither Session nor Agent brings one.
CREATE TABLE model_defaults (
    harness TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- Drawn anew by each change; Sessions remember the one they froze.
    revision TEXT NOT NULL,
    body TEXT NOT NULL,
    sealed_key BYTEA NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE agents (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    body TEXT NOT NULL,
    sealed_provider BYTEA,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX agents_of_project ON agents (project_id, created_at, id);
