-- Sessions with events enough to look for old deltas; see TrimEvents.
CREATE INDEX sessions_to_trim ON sessions (id) WHERE purged_at IS NULL AND last_event - trimmed_through > 512;
