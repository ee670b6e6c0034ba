-- +goose Up
-- What was pruned: one row for each range of positions whose records were archived and removed, in the order of the tree and without a gap.
CREATE TABLE audit_prunings (
    first_index BIGINT NOT NULL PRIMARY KEY,
    until_index BIGINT NOT NULL,
    kept        BIGINT NOT NULL, -- records of the range that stay, see audit_vault
    root        TEXT   NOT NULL, -- hex, of the tree of the records below until_index
    oldest      BIGINT NOT NULL, -- times of the records
    newest      BIGINT NOT NULL,
    size        BIGINT NOT NULL, -- of the checkpoint in the archive
    archive     TEXT   NOT NULL, -- file name of the evidence bundle
    digest      TEXT   NOT NULL, -- hex SHA-256 of that file
    record      TEXT   NOT NULL, -- id of the audit record that says so
    time        BIGINT NOT NULL,
    actor       TEXT   NOT NULL
);

-- The last sequence of each writer below a minimum index: what an old copy of a write-ahead log brings again is known by it.
CREATE TABLE audit_pruned (
    writer      TEXT   NOT NULL,
    until_index BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    PRIMARY KEY (writer, until_index)
);

-- Records that stay when their range is pruned, each with the proof that it is in the tree. The proof is emptied, and the record removed,
-- when its time is over and no hold asks for it.
CREATE TABLE audit_vault (
    idx    BIGINT NOT NULL PRIMARY KEY,
    id     TEXT   NOT NULL,
    tenant TEXT   NOT NULL,
    reason TEXT   NOT NULL, -- class or hold
    until  BIGINT NOT NULL, -- time before which nobody can remove it
    proof  TEXT   NOT NULL
);
CREATE UNIQUE INDEX audit_vault_id ON audit_vault (id);
CREATE INDEX audit_vault_until ON audit_vault (until) WHERE proof <> '';

-- Legal holds. Empty filters mean all; since and before are times of records, before 0 is open.
CREATE TABLE audit_holds (
    id          TEXT   NOT NULL PRIMARY KEY,
    tenant      TEXT   NOT NULL,
    request     TEXT   NOT NULL,
    actor       TEXT   NOT NULL,
    since       BIGINT NOT NULL,
    before      BIGINT NOT NULL,
    reason      TEXT   NOT NULL,
    created     BIGINT NOT NULL,
    created_by  TEXT   NOT NULL,
    released    BIGINT NOT NULL,
    released_by TEXT   NOT NULL
);
CREATE INDEX audit_holds_tenant ON audit_holds (tenant, created);

INSERT INTO audit_lease (name, holder, expires) VALUES ('prune', '', 0);

-- Records and their positions go only below the minimum index, and only those that nobody keeps.
DROP TRIGGER IF EXISTS audit_events_no_delete;
-- +goose StatementBegin
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
WHEN NOT EXISTS (SELECT 1 FROM audit_leaves AS l WHERE l.writer = OLD.writer AND l.seq = OLD.seq AND l.idx < (SELECT MAX(until_index) FROM audit_prunings))
    OR EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.id = OLD.id AND v.proof <> '')
BEGIN
    SELECT RAISE(ABORT, 'audit_events: records are written once and never changed, and removed only by sluice audit prune');
END;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS audit_leaves_no_delete;
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_no_delete BEFORE DELETE ON audit_leaves
WHEN OLD.idx >= COALESCE((SELECT MAX(until_index) FROM audit_prunings), 0)
    OR EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = OLD.idx AND v.proof <> '')
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: records are written once and never changed, and removed only by sluice audit prune');
END;
-- +goose StatementEnd

-- What was pruned stays known.
-- +goose StatementBegin
CREATE TRIGGER audit_prunings_no_update BEFORE UPDATE ON audit_prunings
BEGIN
    SELECT RAISE(ABORT, 'audit_prunings: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_prunings_no_delete BEFORE DELETE ON audit_prunings
BEGIN
    SELECT RAISE(ABORT, 'audit_prunings: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_pruned_no_update BEFORE UPDATE ON audit_pruned
BEGIN
    SELECT RAISE(ABORT, 'audit_pruned: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_pruned_no_delete BEFORE DELETE ON audit_pruned
BEGIN
    SELECT RAISE(ABORT, 'audit_pruned: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_vault_no_update BEFORE UPDATE ON audit_vault
WHEN NEW.proof <> '' OR OLD.until > CAST(strftime('%s', 'now') AS INTEGER) * 1000000
    OR NEW.idx <> OLD.idx OR NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.reason <> OLD.reason OR NEW.until <> OLD.until
BEGIN
    SELECT RAISE(ABORT, 'audit_vault: a record in the vault stays until its time is over');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_vault_no_delete BEFORE DELETE ON audit_vault
BEGIN
    SELECT RAISE(ABORT, 'audit_vault: a record in the vault stays until its time is over');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_holds_no_update BEFORE UPDATE ON audit_holds
WHEN OLD.released <> 0 OR NEW.released = 0 OR NEW.id <> OLD.id OR NEW.tenant <> OLD.tenant OR NEW.request <> OLD.request OR NEW.actor <> OLD.actor
    OR NEW.since <> OLD.since OR NEW.before <> OLD.before OR NEW.reason <> OLD.reason OR NEW.created <> OLD.created OR NEW.created_by <> OLD.created_by
BEGIN
    SELECT RAISE(ABORT, 'audit_holds: a hold is released once and otherwise never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_holds_no_delete BEFORE DELETE ON audit_holds
BEGIN
    SELECT RAISE(ABORT, 'audit_holds: a hold is released once and otherwise never changed');
END;
-- +goose StatementEnd
