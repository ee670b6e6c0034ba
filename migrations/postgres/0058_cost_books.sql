-- +goose Up
-- What the machines of engines cost, by versions that nobody changes.
CREATE TABLE billing_cost_books (
    version        BIGINT NOT NULL PRIMARY KEY,
    digest         TEXT   NOT NULL,
    currency       TEXT   NOT NULL,
    effective_from BIGINT NOT NULL,
    document       TEXT   NOT NULL,
    actor          TEXT   NOT NULL,
    created_at     BIGINT NOT NULL
);
-- How long requests took to their first token and to their end, in microseconds; 0 of what was recorded before, where it is not known.
ALTER TABLE billing_usage ADD COLUMN first_token BIGINT NOT NULL DEFAULT 0;
ALTER TABLE billing_usage ADD COLUMN total BIGINT NOT NULL DEFAULT 0;
