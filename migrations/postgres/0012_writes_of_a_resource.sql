-- The writes of one resource are also looked for without its type, which its id implies.

DROP INDEX write_operations_of_resource;
CREATE INDEX write_operations_of_resource ON write_operations (project_id, resource_id, created_at, id);
