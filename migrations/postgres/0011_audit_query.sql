-- +goose Up
-- The keyed digest of the person for whom somebody acted. No release before this one recorded it.
ALTER TABLE audit_events ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_events_on_behalf_of ON audit_events (on_behalf_of, time, id) WHERE on_behalf_of <> '';

-- The time of the record, so that a position finds its record in one time range.
ALTER TABLE audit_leaves ADD COLUMN time BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_leaves DISABLE TRIGGER audit_leaves_no_change;
UPDATE audit_leaves SET time = e.time FROM audit_events AS e WHERE e.writer = audit_leaves.writer AND e.seq = audit_leaves.seq;
ALTER TABLE audit_leaves ENABLE TRIGGER audit_leaves_no_change;
