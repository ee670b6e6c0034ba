-- +goose Up
CREATE TABLE registry_tenants ( -- the key of a tenant's fingerprints; without it nothing below says anything
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL UNIQUE,
    next       BIGINT NOT NULL, -- number of the next entry
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    wrapped    BYTEA NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE registry_entries ( -- answers that left, one row for each alternative
    tenant     TEXT   NOT NULL,
    number     BIGINT NOT NULL,
    record     TEXT   NOT NULL, -- audit record of the outcome, with which the entry comes and goes
    request    TEXT   NOT NULL,
    choice     BIGINT NOT NULL,
    time       BIGINT NOT NULL,
    subject    TEXT   NOT NULL, -- digest of the person it was made for
    digest     BYTEA NOT NULL, -- keyed, of the normalised text
    characters BIGINT NOT NULL, -- of the normalised text
    PRIMARY KEY (tenant, number)
);
CREATE INDEX registry_entries_record ON registry_entries (record);
CREATE INDEX registry_entries_digest ON registry_entries (tenant, digest, number);
CREATE INDEX registry_entries_subject ON registry_entries (tenant, subject);
CREATE TABLE registry_segments ( -- parts of the index from fingerprints to entries; their blocks never change
    id         BIGINT NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    state      TEXT   NOT NULL, -- live, building, or dead
    level      BIGINT NOT NULL,
    first      BIGINT NOT NULL, -- numbers of entries
    last       BIGINT NOT NULL,
    entries    BIGINT NOT NULL,
    prints     BIGINT NOT NULL, -- different fingerprints
    bits       BIGINT NOT NULL, -- of a fingerprint that name its block
    erased     BIGINT NOT NULL  -- 1: an erasure took entries of it, whose fingerprints it still has
);
CREATE INDEX registry_segments_tenant ON registry_segments (tenant, state);
CREATE TABLE registry_blocks (
    segment    BIGINT NOT NULL,
    bucket     BIGINT NOT NULL,
    tenant     TEXT   NOT NULL,
    data       BYTEA NOT NULL,
    PRIMARY KEY (segment, bucket)
);
CREATE INDEX registry_blocks_tenant ON registry_blocks (tenant);
INSERT INTO audit_lease (name, holder, expires) VALUES ('registry', '', 0);
-- A rotation of the wrapping keys that is under way takes these keys in, and its grace begins anew.
INSERT INTO wrapping_progress (kind, position, total, done, unreadable, complete)
    SELECT 'registry_keys', '', 0, 0, 0, 0 FROM wrapping_rotation WHERE begun <> 0 AND finished = 0;
UPDATE wrapping_rotation SET emptied = 0 WHERE begun <> 0 AND finished = 0;
-- Binaries of before would destroy a wrapping key that these keys still need, and then every answer of the tenant would be refused.
UPDATE installation_compatibility SET floor = 48;
