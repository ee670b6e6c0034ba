-- +goose Up
-- What a tenant pays more or, below 0, less than what was billed. Rows are only added.
CREATE TABLE billing_corrections (
    id       TEXT   NOT NULL PRIMARY KEY,
    tenant   TEXT   NOT NULL,
    at       BIGINT NOT NULL,
    month    TEXT   NOT NULL,
    request  TEXT   NOT NULL,
    model    TEXT   NOT NULL,
    api_key  TEXT   NOT NULL,
    amount   BIGINT NOT NULL,
    currency TEXT   NOT NULL,
    reason   TEXT   NOT NULL,
    actor    TEXT   NOT NULL
);
CREATE INDEX billing_corrections_tenant ON billing_corrections (tenant, at);

-- Months that are closed, with the statement as it was then. Rows are only added.
CREATE TABLE billing_statements (
    tenant     TEXT   NOT NULL,
    month      TEXT   NOT NULL,
    from_at    BIGINT NOT NULL,
    until_at   BIGINT NOT NULL,
    closed_at  BIGINT NOT NULL,
    actor      TEXT   NOT NULL,
    digest     TEXT   NOT NULL,
    content    TEXT   NOT NULL,
    PRIMARY KEY (tenant, month)
);
