-- +goose Up
-- Credentials for an emergency, each good once. halves: JSON array of the hashes of its parts, all of which are needed. Times are unix microseconds, 0: not.
CREATE TABLE identity_break_glass (
    id           TEXT   NOT NULL PRIMARY KEY,
    halves       TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    created_by   TEXT   NOT NULL,
    created_name TEXT   NOT NULL,
    spent_at     BIGINT NOT NULL,
    revoked_at   BIGINT NOT NULL
);

-- What each was used for, and what an auditor found about that.
CREATE TABLE identity_break_glass_uses (
    id            TEXT   NOT NULL PRIMARY KEY,
    credential    TEXT   NOT NULL,
    reason        TEXT   NOT NULL,
    source        TEXT   NOT NULL,
    started_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL,
    ended_at      BIGINT NOT NULL, -- before that
    review_due    BIGINT NOT NULL,
    reviewed_at   BIGINT NOT NULL,
    reviewed_by   TEXT   NOT NULL,
    reviewed_name TEXT   NOT NULL,
    review        TEXT   NOT NULL,
    touched       TEXT   NOT NULL  -- ids of the accounts that it has changed, each with a space behind it
);
CREATE INDEX identity_break_glass_uses_open ON identity_break_glass_uses (reviewed_at, started_at);
