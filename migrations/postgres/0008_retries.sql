-- Retry identities of every creation. `namespace` is the kind of resource, with its parent where it has one.

CREATE TABLE retries (
    project_id TEXT NOT NULL,
    namespace TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT NOT NULL,
    resource_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, namespace, key)
);
INSERT INTO retries (project_id, namespace, key, digest, resource_id, created_at)
SELECT project_id, 'session', key, digest, session_id, created_at FROM creations;
DROP TABLE creations;

-- What goes after its time (OPS-066); records of creations stay.
CREATE INDEX write_operations_that_expire ON write_operations (created_at, id)
WHERE action NOT IN ('create', 'upload_version');
