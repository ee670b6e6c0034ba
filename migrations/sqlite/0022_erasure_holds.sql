-- +goose Up
-- Whoever took part in a conversation is taken to do so until its time is over: not every turn gets here.
ALTER TABLE vault_subjects DROP COLUMN last_seen;

-- Who released a hold, by id: it goes on binding this person for a day. '' where that is not known.
ALTER TABLE audit_holds ADD COLUMN releaser TEXT NOT NULL DEFAULT '';

-- What an erasure of a person did, written with it. The certificate is the record that says so, made when no copy is left in files either; '' before.
CREATE TABLE audit_erasure_results (
    record      TEXT NOT NULL PRIMARY KEY,
    tenant      TEXT NOT NULL,
    subject     TEXT NOT NULL,
    detail      TEXT NOT NULL,
    certificate TEXT NOT NULL
);
CREATE INDEX audit_erasure_results_subject ON audit_erasure_results (tenant, subject);

-- Approvals of erasures are apart from those of reveals: a replica of an earlier release would let whoever may approve a reveal approve them.
CREATE TABLE erasure_approvals (
    id             TEXT   NOT NULL PRIMARY KEY,
    tenant         TEXT   NOT NULL,
    digest         TEXT   NOT NULL,
    target         TEXT   NOT NULL,
    purpose        TEXT   NOT NULL,
    counts         TEXT   NOT NULL,
    asked_by       TEXT   NOT NULL,
    asked_name     TEXT   NOT NULL,
    created        BIGINT NOT NULL,
    expires        BIGINT NOT NULL,
    approved_by    TEXT   NOT NULL,
    approved_name  TEXT   NOT NULL,
    approved       BIGINT NOT NULL,
    used           BIGINT NOT NULL,
    declined       BIGINT NOT NULL,
    declined_by    TEXT   NOT NULL,
    declined_name  TEXT   NOT NULL,
    decline_reason TEXT   NOT NULL
);
CREATE INDEX erasure_approvals_tenant ON erasure_approvals (tenant, created);
DELETE FROM reveal_approvals WHERE kind <> 'reveal';
ALTER TABLE reveal_approvals DROP COLUMN kind;
