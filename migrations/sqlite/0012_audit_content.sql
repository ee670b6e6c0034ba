-- +goose Up
-- What is kept of prompts and answers, encrypted; the records commit to the digests.
CREATE TABLE audit_contents (
    record     TEXT NOT NULL,
    direction  TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    digest     TEXT NOT NULL,
    ciphertext BLOB NOT NULL,
    PRIMARY KEY (record, direction)
);
CREATE INDEX audit_contents_key ON audit_contents (key_id);

-- The data keys, wrapped by a key that is derived from the master key. Who destroys a row has erased what the key encrypted.
CREATE TABLE audit_subject_keys (
    id      TEXT   NOT NULL PRIMARY KEY,
    nonce   TEXT   NOT NULL,
    tenant  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    suite   TEXT   NOT NULL,
    created BIGINT NOT NULL,
    wrapped BLOB   NOT NULL
);
CREATE INDEX audit_subject_keys_subject ON audit_subject_keys (tenant, subject);

-- Erasures, each with the record that says so, and what is left of the keys: whose they were. A key of an erased subject that was made
-- before the erasure is not stored again, whenever it arrives.
CREATE TABLE audit_erasures (
    record  TEXT   NOT NULL PRIMARY KEY,
    tenant  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    time    BIGINT NOT NULL
);
CREATE INDEX audit_erasures_subject ON audit_erasures (tenant, subject, time);

CREATE TABLE audit_erased_keys (
    id      TEXT   NOT NULL PRIMARY KEY,
    nonce   TEXT   NOT NULL,
    tenant  TEXT   NOT NULL,
    subject TEXT   NOT NULL,
    created BIGINT NOT NULL
);

-- Whoever erases locks this row, whoever stores keys shares it: no key slips in between.
INSERT INTO audit_lease (name, holder, expires) VALUES ('erase', '', 0);

-- Evidence is written once.
-- +goose StatementBegin
CREATE TRIGGER audit_erasures_no_update BEFORE UPDATE ON audit_erasures
BEGIN
    SELECT RAISE(ABORT, 'audit_erasures: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_erasures_no_delete BEFORE DELETE ON audit_erasures
BEGIN
    SELECT RAISE(ABORT, 'audit_erasures: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_erased_keys_no_update BEFORE UPDATE ON audit_erased_keys
BEGIN
    SELECT RAISE(ABORT, 'audit_erased_keys: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_erased_keys_no_delete BEFORE DELETE ON audit_erased_keys
BEGIN
    SELECT RAISE(ABORT, 'audit_erased_keys: records are written once and never changed');
END;
-- +goose StatementEnd
