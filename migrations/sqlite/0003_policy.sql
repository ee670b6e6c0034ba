-- +goose Up
CREATE TABLE policy_documents ( -- immutable: triggers refuse updates and deletes
    tenant     TEXT   NOT NULL, -- '*': for tenants without a policy of their own
    version    BIGINT NOT NULL, -- 1, 2, … per tenant; the highest is in force
    digest     TEXT   NOT NULL, -- SHA-256 of the canonical form, hex
    name       TEXT   NOT NULL,
    source     TEXT   NOT NULL, -- YAML as published
    canonical  TEXT   NOT NULL, -- JSON
    created_at BIGINT NOT NULL,
    created_by TEXT   NOT NULL,
    PRIMARY KEY (tenant, version)
);

CREATE TABLE policy_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO policy_changes (name, version) VALUES ('policy', 1);

-- +goose StatementBegin
CREATE TRIGGER policy_documents_no_update BEFORE UPDATE ON policy_documents
BEGIN
    SELECT RAISE(ABORT, 'policy documents are immutable');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER policy_documents_no_delete BEFORE DELETE ON policy_documents
BEGIN
    SELECT RAISE(ABORT, 'policy documents are immutable');
END;
-- +goose StatementEnd
