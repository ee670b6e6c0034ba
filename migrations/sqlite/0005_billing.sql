-- +goose Up
CREATE TABLE billing_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO billing_changes (name, version) VALUES ('billing', 1);

CREATE TABLE billing_books (
    version        BIGINT NOT NULL PRIMARY KEY,
    digest         TEXT   NOT NULL,
    currency       TEXT   NOT NULL,
    effective_from BIGINT NOT NULL,
    document       TEXT   NOT NULL,
    actor          TEXT   NOT NULL,
    created_at     BIGINT NOT NULL
);

CREATE TABLE billing_budgets (
    id           TEXT   NOT NULL PRIMARY KEY,
    tenant       TEXT   NOT NULL,
    api_key      TEXT   NOT NULL,
    period       TEXT   NOT NULL,
    zone         TEXT   NOT NULL,
    limit_amount BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    UNIQUE (tenant, api_key, period)
);

CREATE TABLE billing_spend (
    budget TEXT   NOT NULL,
    period TEXT   NOT NULL,
    spent  BIGINT NOT NULL,
    PRIMARY KEY (budget, period)
);

CREATE TABLE billing_leases (
    id         TEXT   NOT NULL PRIMARY KEY,
    budget     TEXT   NOT NULL,
    period     TEXT   NOT NULL,
    node       TEXT   NOT NULL,
    owner      TEXT   NOT NULL,
    amount     BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX billing_leases_budget ON billing_leases (budget, period);
CREATE INDEX billing_leases_expiry ON billing_leases (expires_at);

CREATE TABLE billing_usage (
    request           TEXT    NOT NULL PRIMARY KEY,
    digest            TEXT    NOT NULL,
    tenant            TEXT    NOT NULL,
    project           TEXT    NOT NULL,
    api_key           TEXT    NOT NULL,
    actor             TEXT    NOT NULL,
    action            TEXT    NOT NULL,
    model             TEXT    NOT NULL,
    model_version     TEXT    NOT NULL,
    at                BIGINT  NOT NULL,
    prompt_tokens     BIGINT  NOT NULL,
    cached_tokens     BIGINT  NOT NULL,
    completion_tokens BIGINT  NOT NULL,
    estimated         INTEGER NOT NULL,
    cost              BIGINT  NOT NULL,
    currency          TEXT    NOT NULL,
    price_book        TEXT    NOT NULL,
    energy            BIGINT  NOT NULL,
    energy_method     TEXT    NOT NULL,
    outcome           TEXT    NOT NULL,
    recorded_at       BIGINT  NOT NULL
);
CREATE INDEX billing_usage_tenant_at ON billing_usage (tenant, at);
CREATE INDEX billing_usage_at ON billing_usage (at);

CREATE TABLE billing_usage_daily (
    tenant            TEXT   NOT NULL,
    api_key           TEXT   NOT NULL,
    model             TEXT   NOT NULL,
    day               TEXT   NOT NULL,
    requests          BIGINT NOT NULL,
    estimated         BIGINT NOT NULL,
    prompt_tokens     BIGINT NOT NULL,
    cached_tokens     BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost              BIGINT NOT NULL,
    energy            BIGINT NOT NULL,
    PRIMARY KEY (tenant, api_key, model, day)
);
CREATE INDEX billing_usage_daily_day ON billing_usage_daily (day);
