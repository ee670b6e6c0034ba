-- +goose Up
CREATE TABLE identity_tenants (
    id          TEXT    NOT NULL PRIMARY KEY,
    name        TEXT    NOT NULL,
    is_operator INTEGER NOT NULL,
    created_at  BIGINT  NOT NULL
);

CREATE TABLE identity_users (
    id            TEXT   NOT NULL PRIMARY KEY,
    tenant        TEXT   NOT NULL,
    name          TEXT   NOT NULL,
    password_hash TEXT   NOT NULL,
    roles         TEXT   NOT NULL, -- JSON array
    labels        TEXT   NOT NULL, -- JSON array of document access labels
    epoch         BIGINT NOT NULL, -- sessions of an older epoch are over
    created_at    BIGINT NOT NULL,
    created_by    TEXT   NOT NULL,
    disabled_at   BIGINT NOT NULL  -- 0: active
);
CREATE UNIQUE INDEX identity_users_name ON identity_users (name);
CREATE INDEX identity_users_tenant ON identity_users (tenant, name);

CREATE TABLE identity_keys (
    id                  TEXT    NOT NULL PRIMARY KEY, -- public prefix, part of the credential
    digest              TEXT    NOT NULL,             -- keyed digest of the whole credential, hex
    tenant              TEXT    NOT NULL,
    project             TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    labels              TEXT    NOT NULL, -- JSON array of document access labels
    scopes              TEXT    NOT NULL, -- JSON array of permissions; empty: all of the role
    models              TEXT    NOT NULL, -- JSON array of model patterns; empty: all the policy allows
    label_mode          TEXT    NOT NULL,
    requests_per_minute INTEGER NOT NULL,
    tokens_per_minute   INTEGER NOT NULL,
    concurrent          INTEGER NOT NULL,
    created_at          BIGINT  NOT NULL,
    created_by          TEXT    NOT NULL,
    expires_at          BIGINT  NOT NULL,
    revoked_at          BIGINT  NOT NULL, -- 0: not revoked
    last_used_at        BIGINT  NOT NULL  -- 0: never; written lazily
);
CREATE UNIQUE INDEX identity_keys_digest ON identity_keys (digest);
CREATE INDEX identity_keys_tenant ON identity_keys (tenant, created_at);

CREATE TABLE identity_sessions ( -- one row per refresh token; a family is one sign-in
    digest     TEXT   NOT NULL PRIMARY KEY,
    family     TEXT   NOT NULL,
    user_id    TEXT   NOT NULL,
    source     TEXT   NOT NULL,
    started_at BIGINT NOT NULL, -- of the family
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL, -- 0: not yet rotated
    revoked_at BIGINT NOT NULL
);
CREATE INDEX identity_sessions_family ON identity_sessions (family);
CREATE INDEX identity_sessions_user ON identity_sessions (user_id);
CREATE INDEX identity_sessions_expiry ON identity_sessions (expires_at);

CREATE TABLE identity_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO identity_changes (name, version) VALUES ('identity', 1);
