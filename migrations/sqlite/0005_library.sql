-- Files and Skills of a Project. Their bytes are blobs.

CREATE TABLE files (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    filename TEXT NOT NULL,
    digest TEXT NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX files_of_project ON files (project_id, created_at, id);

CREATE TABLE skills (
    id TEXT NOT NULL PRIMARY KEY,
    project_id TEXT NOT NULL REFERENCES projects (id),
    -- Numbers of the version that is taken by default, and of the newest upload ever: numbers are never used twice.
    default_version BIGINT NOT NULL,
    last_number BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX skills_of_project ON skills (project_id, created_at, id);

CREATE TABLE skill_versions (
    id TEXT NOT NULL PRIMARY KEY,
    skill_id TEXT NOT NULL REFERENCES skills (id),
    number BIGINT NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    digest TEXT NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX skill_versions_of_skill ON skill_versions (skill_id, number);

-- Which row keeps which blob: the name of the blob, and the public id of its holder. A blob without one is swept.
CREATE TABLE blob_references (
    blob TEXT NOT NULL,
    holder TEXT NOT NULL,
    PRIMARY KEY (blob, holder)
);
CREATE INDEX blob_references_of_holder ON blob_references (holder);
