-- +goose Up
-- What witnesses stated about checkpoints: their signature lines in the C2SP tlog-cosignature format, one per checkpoint and witness.
CREATE TABLE audit_cosignatures (
    size    BIGINT NOT NULL,
    witness TEXT   NOT NULL,
    line    TEXT   NOT NULL,
    time    BIGINT NOT NULL,
    PRIMARY KEY (size, witness)
);
CREATE INDEX audit_cosignatures_witness ON audit_cosignatures (witness, size);

-- Evidence is written once.
-- +goose StatementBegin
CREATE TRIGGER audit_cosignatures_no_update BEFORE UPDATE ON audit_cosignatures
BEGIN
    SELECT RAISE(ABORT, 'audit_cosignatures: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_cosignatures_no_delete BEFORE DELETE ON audit_cosignatures
BEGIN
    SELECT RAISE(ABORT, 'audit_cosignatures: records are written once and never changed');
END;
-- +goose StatementEnd
