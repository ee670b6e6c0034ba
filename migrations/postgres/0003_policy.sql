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
CREATE FUNCTION policy_documents_immutable() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'policy documents are immutable';
END;
$$;
-- +goose StatementEnd
CREATE TRIGGER policy_documents_no_change BEFORE UPDATE OR DELETE ON policy_documents
    FOR EACH ROW EXECUTE FUNCTION policy_documents_immutable();
