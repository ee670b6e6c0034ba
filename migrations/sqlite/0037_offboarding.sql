-- +goose Up
-- A tenant that leaves for good: where its offboarding stands. state: suspended, exporting, exported, erasing or erased. Times are unix microseconds,
-- 0: not yet.
CREATE TABLE offboarding_tenants (
    tenant        TEXT   NOT NULL PRIMARY KEY,
    state         TEXT   NOT NULL,
    since         BIGINT NOT NULL, -- of the suspension that it is about
    reason        TEXT   NOT NULL,
    begun         BIGINT NOT NULL,
    begun_by      TEXT   NOT NULL,
    begun_name    TEXT   NOT NULL,
    exported      BIGINT NOT NULL,
    exported_name TEXT   NOT NULL,
    export_digest TEXT   NOT NULL, -- SHA-256 of the manifest, hex
    export_files  BIGINT NOT NULL,
    export_bytes  BIGINT NOT NULL,
    declined      TEXT   NOT NULL, -- why there is no export
    erasing       BIGINT NOT NULL, -- since when
    erasing_by    TEXT   NOT NULL,
    erasing_name  TEXT   NOT NULL,
    holds         TEXT   NOT NULL, -- JSON array of the holds that it passes
    approval      TEXT   NOT NULL, -- that lets it pass them
    step          TEXT   NOT NULL,
    plan          TEXT   NOT NULL, -- JSON: what there was before anything went
    failure       TEXT   NOT NULL, -- why the last attempt of the erasure broke off, as code
    attempted     BIGINT NOT NULL, -- when that was
    report        TEXT   NOT NULL, -- JSON: what the certificate says
    certificate   TEXT   NOT NULL, -- id of the audit record that it is done
    erased        BIGINT NOT NULL,
    changed       BIGINT NOT NULL
);

-- One replica does the work.
INSERT INTO audit_lease (name, holder, expires) VALUES ('offboarding', '', 0);

-- A tenant that is closed can neither be resumed nor get anything new. Its row stays, so that nobody gets its id.
ALTER TABLE identity_tenants ADD COLUMN closed_at BIGINT NOT NULL DEFAULT 0;

-- The policies of a tenant, and of its projects, stay as they were written until it is erased; what comes of it later goes as well.
DROP TRIGGER policy_documents_no_delete;
-- +goose StatementBegin
CREATE TRIGGER policy_documents_no_delete BEFORE DELETE ON policy_documents
WHEN NOT EXISTS (SELECT 1 FROM offboarding_tenants AS o WHERE o.state IN ('erasing', 'erased')
    AND (OLD.tenant = o.tenant OR substr(OLD.tenant, 1, length(o.tenant) + 1) = o.tenant || '/'))
BEGIN
    SELECT RAISE(ABORT, 'policy documents are immutable');
END;
-- +goose StatementEnd
