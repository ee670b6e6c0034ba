-- +goose Up
-- Accounts of programs, apart from people and keys. A program proves that it is one by a secret or by a key of its own, and gets tokens that live
-- for minutes.
CREATE TABLE identity_service_accounts (
    id                  TEXT    NOT NULL PRIMARY KEY, -- the client id
    tenant              TEXT    NOT NULL,
    project             TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    roles               TEXT    NOT NULL, -- JSON array
    labels              TEXT    NOT NULL, -- JSON array of document access labels
    scopes              TEXT    NOT NULL, -- JSON array; empty: all of the roles
    models              TEXT    NOT NULL, -- JSON array of model patterns; empty: all the policy allows
    networks            TEXT    NOT NULL, -- JSON array; empty: from everywhere
    requests_per_minute INTEGER NOT NULL,
    tokens_per_minute   INTEGER NOT NULL,
    concurrent          INTEGER NOT NULL,
    owner               TEXT    NOT NULL, -- the person who answers for it
    epoch               BIGINT  NOT NULL, -- tokens of an older epoch are over
    digest              TEXT    NOT NULL, -- keyed digest of the secret, hex; '': none
    former_digest       TEXT    NOT NULL, -- of the secret before the last rotation
    former_expires_at   BIGINT  NOT NULL, -- until when that one is accepted
    rotated_at          BIGINT  NOT NULL,
    created_at          BIGINT  NOT NULL,
    created_by          TEXT    NOT NULL,
    expires_at          BIGINT  NOT NULL,
    disabled_at         BIGINT  NOT NULL, -- 0: active
    removed_at          BIGINT  NOT NULL, -- 0: there; a removed one keeps its row, which records name
    last_used_at        BIGINT  NOT NULL  -- 0: never; written lazily
);
CREATE UNIQUE INDEX identity_service_accounts_name ON identity_service_accounts (tenant, name) WHERE removed_at = 0;

-- Public keys by which programs prove who they are (RFC 7523).
CREATE TABLE identity_service_keys (
    account    TEXT   NOT NULL,
    id         TEXT   NOT NULL, -- kid
    public_key TEXT   NOT NULL, -- SubjectPublicKeyInfo, base64
    created_at BIGINT NOT NULL,
    created_by TEXT   NOT NULL,
    PRIMARY KEY (account, id)
);

-- Signed assertions that were accepted, so that none is accepted again by any replica: keyed digests of client and jti.
CREATE TABLE identity_assertions (
    digest     TEXT   NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);
CREATE INDEX identity_assertions_expiry ON identity_assertions (expires_at);
