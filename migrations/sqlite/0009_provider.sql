-- The deployment's sandbox provider (SP-2.1). One row for each accepted change, never changed again: an allocation keeps the
-- settings of the generation that made it (SP-2.6). The newest is the selection; without a provider, hosted Environments are refused.
CREATE TABLE provider_selections (
    generation BIGINT NOT NULL PRIMARY KEY,
    provider TEXT,
    settings TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
INSERT INTO provider_selections (generation, provider, settings, created_at) VALUES (1, 'local', '{}', 0);

-- Every allocation that is looked after, whichever provider made it.
CREATE INDEX allocations_unreleased ON allocations (id) WHERE phase <> 'released';
