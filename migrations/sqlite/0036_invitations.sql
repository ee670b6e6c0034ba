-- +goose Up
-- Accounts of people that wait for the person: each comes about when somebody with its token chooses a password.
CREATE TABLE identity_invitations (
    id           TEXT   NOT NULL PRIMARY KEY,
    tenant       TEXT   NOT NULL,
    name         TEXT   NOT NULL, -- of the account
    roles        TEXT   NOT NULL, -- JSON array
    labels       TEXT   NOT NULL, -- JSON array
    digest       TEXT   NOT NULL, -- keyed digest of the token, hex
    created_at   BIGINT NOT NULL,
    created_by   TEXT   NOT NULL, -- who invites
    expires_at   BIGINT NOT NULL,
    accepted_at  BIGINT NOT NULL, -- 0: not
    user_id      TEXT   NOT NULL, -- the account that came about; '': none yet
    withdrawn_at BIGINT NOT NULL, -- 0: not
    withdrawn_by TEXT   NOT NULL
);
CREATE UNIQUE INDEX identity_invitations_digest ON identity_invitations (digest);
CREATE INDEX identity_invitations_tenant ON identity_invitations (tenant, created_at);
