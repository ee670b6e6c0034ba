-- +goose Up
-- The keys that data keys and documents are wrapped under, by epoch. Epoch 0 is derived from the master key and stored nowhere; the others are
-- random, and stored encrypted. state: active, retiring or destroyed; the bytes of one that is destroyed are gone.
CREATE TABLE wrapping_keys (
    number    BIGINT NOT NULL PRIMARY KEY,
    suite     TEXT   NOT NULL,
    state     TEXT   NOT NULL,
    created   BIGINT NOT NULL,
    destroyed BIGINT NOT NULL,
    wrapped   BLOB NOT NULL
);
INSERT INTO wrapping_keys (number, suite, state, created, destroyed, wrapped) VALUES (0, '', 'active', 0, 0, X'');

-- The rotation in progress or the last one, in one row: whoever wraps shares it, whoever begins a rotation or destroys a key locks it. Times are
-- unix microseconds; emptied: since when nothing is left to be wrapped anew.
CREATE TABLE wrapping_rotation (
    name     TEXT   NOT NULL PRIMARY KEY,
    active   BIGINT NOT NULL,
    begun    BIGINT NOT NULL,
    emptied  BIGINT NOT NULL,
    finished BIGINT NOT NULL
);
INSERT INTO wrapping_rotation (name, active, begun, emptied, finished) VALUES ('rotation', 0, 0, 0, 0);

-- How far it has come, by kind. position: id of the row that it looked at last; unreadable counts since it began anew with the first row.
CREATE TABLE wrapping_progress (
    kind       TEXT   NOT NULL PRIMARY KEY,
    position   TEXT   NOT NULL,
    total      BIGINT NOT NULL,
    done       BIGINT NOT NULL,
    unreadable BIGINT NOT NULL,
    complete   BIGINT NOT NULL
);

-- One replica does the work.
INSERT INTO audit_lease (name, holder, expires) VALUES ('rewrap', '', 0);

-- Under which epoch a row is wrapped. What is there is of epoch 0.
ALTER TABLE vault_keys ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_subject_keys ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
ALTER TABLE rag_documents ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;
CREATE INDEX vault_keys_epoch ON vault_keys (epoch, id);
CREATE INDEX audit_subject_keys_epoch ON audit_subject_keys (epoch, id);
CREATE INDEX rag_documents_epoch ON rag_documents (epoch, id);
