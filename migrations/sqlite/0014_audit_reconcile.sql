-- +goose Up
-- Up to when everything that a writer wrote is in the database: who misses a record of it then knows that it never comes.
ALTER TABLE audit_writers ADD COLUMN drained BIGINT NOT NULL DEFAULT 0;

-- Where the audit log is incomplete, or says other than the books. What was closed is kept: it says what was wrong, and since when.
CREATE TABLE audit_findings (
    kind       TEXT   NOT NULL,
    item       TEXT   NOT NULL, -- what it is about: a request, a record, an hour of a tenant
    tenant     TEXT   NOT NULL,
    detail     TEXT   NOT NULL, -- JSON
    first_seen BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL,
    closed     BIGINT NOT NULL, -- when it was over, 0 before
    repair     TEXT   NOT NULL, -- the audit record that mended it, '' if none did
    claimant   TEXT   NOT NULL, -- the writer that began to mend it, '' before, and when
    claimed    BIGINT NOT NULL,
    PRIMARY KEY (kind, item)
);
CREATE INDEX audit_findings_open ON audit_findings (closed, first_seen, kind, item);

-- The one row of how far the comparison got.
CREATE TABLE audit_reconciliation (
    name      TEXT   NOT NULL PRIMARY KEY,
    positions BIGINT NOT NULL, -- in the tree: records behind it have not been looked at
    started   BIGINT NOT NULL, -- the last complete run
    finished  BIGINT NOT NULL,
    hours     BIGINT NOT NULL, -- it compared
    repaired  BIGINT NOT NULL
);
INSERT INTO audit_reconciliation (name, positions, started, finished, hours, repaired) VALUES ('last', 0, 0, 0, 0, 0);

-- One replica at a time.
INSERT INTO audit_lease (name, holder, expires) VALUES ('reconcile', '', 0);
