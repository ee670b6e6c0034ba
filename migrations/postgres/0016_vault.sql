-- +goose Up
-- Values of pseudonyms that a policy lets somebody see again, encrypted under a key of the tenant. Codes, and what conversations are called,
-- are keyed digests. A value lives as long as its scope, the conversation or the request.
CREATE TABLE vault_tenants (
    tenant TEXT   NOT NULL PRIMARY KEY,
    held   BIGINT NOT NULL
);

CREATE TABLE vault_keys (
    id      TEXT   NOT NULL PRIMARY KEY,
    tenant  TEXT   NOT NULL,
    suite   TEXT   NOT NULL,
    created BIGINT NOT NULL,
    wrapped BYTEA  NOT NULL
);
CREATE INDEX vault_keys_tenant ON vault_keys (tenant, created);

CREATE TABLE vault_scopes (
    scope   BYTEA  NOT NULL PRIMARY KEY,
    tenant  TEXT   NOT NULL,
    name    BYTEA  NOT NULL,
    held    BIGINT NOT NULL,
    expires BIGINT NOT NULL
);
CREATE INDEX vault_scopes_name ON vault_scopes (name);
CREATE INDEX vault_scopes_expires ON vault_scopes (expires);

CREATE TABLE vault_values (
    scope  BYTEA NOT NULL,
    entry  BYTEA NOT NULL, -- digest of class and value: two values may get one code, each in a request without the other
    code   BYTEA NOT NULL,
    class  TEXT  NOT NULL,
    key_id TEXT  NOT NULL,
    sealed BYTEA NOT NULL,
    PRIMARY KEY (scope, entry)
);
CREATE INDEX vault_values_code ON vault_values (scope, code);
CREATE INDEX vault_values_key ON vault_values (key_id);

-- What people have seen of them in the last hour, and what waits for a second person. The row of a person puts that person's requests in a queue.
CREATE TABLE reveal_people (
    person  TEXT   NOT NULL PRIMARY KEY,
    touched BIGINT NOT NULL
);

CREATE TABLE reveal_uses (
    id     TEXT   NOT NULL PRIMARY KEY,
    person TEXT   NOT NULL,
    target TEXT   NOT NULL,
    time   BIGINT NOT NULL,
    clear  BIGINT NOT NULL
);
CREATE INDEX reveal_uses_person ON reveal_uses (person, time);

CREATE TABLE reveal_approvals (
    id            TEXT   NOT NULL PRIMARY KEY,
    tenant        TEXT   NOT NULL,
    digest        TEXT   NOT NULL,
    target        TEXT   NOT NULL,
    purpose       TEXT   NOT NULL,
    counts        TEXT   NOT NULL,
    asked_by      TEXT   NOT NULL,
    asked_name    TEXT   NOT NULL,
    created       BIGINT NOT NULL,
    expires       BIGINT NOT NULL,
    approved_by   TEXT   NOT NULL,
    approved_name TEXT   NOT NULL,
    approved      BIGINT NOT NULL,
    used          BIGINT NOT NULL
);
CREATE INDEX reveal_approvals_tenant ON reveal_approvals (tenant, created);
