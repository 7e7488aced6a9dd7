-- Vaults and the credentials in them. What may be shown is in clear, the secrets are one sealed value.

CREATE TABLE vaults (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects (id),
    name TEXT,
    metadata TEXT NOT NULL,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX vaults_of_project ON vaults (project_id, created_at, id);

CREATE TABLE credentials (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    vault_id TEXT COLLATE "C" NOT NULL REFERENCES vaults (id),
    name TEXT NOT NULL,
    auth TEXT NOT NULL,
    sealed BYTEA NOT NULL,
    status TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX credentials_of_vault ON credentials (vault_id, created_at, id);
