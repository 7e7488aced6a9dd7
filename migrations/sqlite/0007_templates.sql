-- Environment Templates. `body` is what may be shown; inline bytes are blobs.

CREATE TABLE templates (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    name TEXT,
    body TEXT NOT NULL,
    sealed_variables BLOB,
    sealed_setup BLOB,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX templates_of_project ON templates (project_id, created_at, id);
