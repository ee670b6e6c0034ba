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
CREATE TRIGGER audit_cosignatures_no_change BEFORE UPDATE OR DELETE ON audit_cosignatures FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_cosignatures_no_truncate BEFORE TRUNCATE ON audit_cosignatures FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
