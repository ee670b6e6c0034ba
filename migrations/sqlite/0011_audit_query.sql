-- +goose Up
-- The keyed digest of the person for whom somebody acted. No release before this one recorded it.
ALTER TABLE audit_events ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_events_on_behalf_of ON audit_events (on_behalf_of, time, id) WHERE on_behalf_of <> '';

-- The time of the record, so that a position finds its record in one time range.
ALTER TABLE audit_leaves ADD COLUMN time BIGINT NOT NULL DEFAULT 0;
DROP TRIGGER audit_leaves_no_update;
UPDATE audit_leaves SET time = COALESCE((SELECT e.time FROM audit_events AS e WHERE e.writer = audit_leaves.writer AND e.seq = audit_leaves.seq), 0);
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_no_update BEFORE UPDATE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: records are written once and never changed');
END;
-- +goose StatementEnd
