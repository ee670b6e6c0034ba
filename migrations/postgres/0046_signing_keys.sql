-- +goose Up
CREATE TABLE signature_keys ( -- public halves of the keys that sign results; rows stay, since what was signed has to be checked for years
    id         TEXT   NOT NULL PRIMARY KEY, -- digest of the key
    tenant     TEXT   NOT NULL,
    number     BIGINT NOT NULL, -- 1, 2, …: the last one of a tenant signs
    algorithm  TEXT   NOT NULL,
    public     BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    retired_at BIGINT NOT NULL, -- 0: it signs
    revoked_at BIGINT NOT NULL, -- 0: what it has signed is proved
    UNIQUE (tenant, number)
);
CREATE TABLE signature_seeds ( -- private halves, of keys that sign
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    wrapped    BYTEA  NOT NULL
);
