-- Bytes of the deltas that a Session still has, so that few large ones are trimmed too; see TrimEvents.
ALTER TABLE sessions ADD COLUMN delta_bytes BIGINT NOT NULL DEFAULT 0;
DROP INDEX sessions_to_trim;
CREATE INDEX sessions_to_trim ON sessions (id) WHERE purged_at IS NULL AND (last_event - trimmed_through > 512 OR delta_bytes > 67108864);
