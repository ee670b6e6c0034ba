-- +goose Up
CREATE TABLE watermark_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO watermark_changes (name, version) VALUES ('watermark', 1);
CREATE TABLE watermark_keys ( -- secrets by which texts are marked, and found again after they were replaced
    id         TEXT   NOT NULL PRIMARY KEY, -- tells nothing of the secret
    tenant     TEXT   NOT NULL,
    number     BIGINT NOT NULL, -- 1, 2, …: the epoch
    params     TEXT   NOT NULL, -- JSON: scheme, sub_keys, context, gamma, delta
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL, -- of the wrapping key
    wrapped    BYTEA  NOT NULL,
    created_at BIGINT NOT NULL,
    retired_at BIGINT NOT NULL, -- 0: it marks
    UNIQUE (tenant, number)
);
