-- +goose Up
CREATE TABLE label_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO label_changes (name, version) VALUES ('agreements', 1);
CREATE TABLE label_agreements ( -- under which answers go without a visible label; rows stay, since they are the record that the law demands
    id            TEXT   NOT NULL PRIMARY KEY,
    tenant        TEXT   NOT NULL,
    project       TEXT   NOT NULL, -- '': all of the tenant
    key_id        TEXT   NOT NULL, -- '': all keys
    recipient     TEXT   NOT NULL,
    contact       TEXT   NOT NULL,
    reference     TEXT   NOT NULL, -- of the signed document; '' if there is none
    purpose       TEXT   NOT NULL,
    text          TEXT   NOT NULL, -- the responsibilities that were accepted
    digest        TEXT   NOT NULL, -- SHA-256 of text, hex
    valid_from    BIGINT NOT NULL,
    valid_until   BIGINT NOT NULL,
    asked_at      BIGINT NOT NULL,
    asked_by      TEXT   NOT NULL,
    asked_name    TEXT   NOT NULL,
    approved_at   BIGINT NOT NULL, -- 0: nobody has
    approved_by   TEXT   NOT NULL,
    approved_name TEXT   NOT NULL,
    revoked_at    BIGINT NOT NULL, -- 0: nobody has, nor declined it before it was approved
    revoked_by    TEXT   NOT NULL,
    revoked_name  TEXT   NOT NULL,
    revoke_reason TEXT   NOT NULL
);
CREATE INDEX label_agreements_tenant ON label_agreements (tenant, asked_at);
-- Binaries of before could not read a policy that demands agreements, would leave out a visible label without one, and would index its records otherwise.
UPDATE installation_compatibility SET floor = 49;
