-- Indexes that the scans and lists use, and none that nothing uses.

DROP INDEX turns_claimed;
DROP INDEX environments_observed;
CREATE INDEX environments_to_allocate ON environments (id) WHERE kind = 'openai_hosted' AND status = 'pending';
CREATE INDEX environments_to_recover ON environments (session_id)
WHERE initialization = 'running' OR connection IN ('registered', 'connected');

-- Environments that ended before they were prepared have nothing to prepare; only a live one waits.
DROP INDEX environments_to_initialize;
CREATE INDEX environments_to_initialize ON environments (id)
WHERE initialization = 'pending' AND connection IN ('registered', 'connected');

-- Text in keys is ordered by its bytes; SQLite knows no other order.
DROP INDEX write_operations_of_resource;
CREATE INDEX write_operations_of_resource ON write_operations (project_id, resource_type, resource_id, created_at, id);

-- A path may be longer than an entry of an index. A capture has one file for each path before anything is written.
DROP INDEX artifacts_of_turn;

-- Rotation of the service key goes through the digests of deleted Artifacts, too.
DROP INDEX artifacts_by_digest;
CREATE INDEX artifacts_by_digest ON artifacts (digest);
