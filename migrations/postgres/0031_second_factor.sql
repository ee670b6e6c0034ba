-- +goose Up
-- Second factors of accounts. kind says what one is: 'totp' (RFC 6238). sealed is its secret, encrypted with the algorithm that suite names.
CREATE TABLE identity_factors (
    id           TEXT   NOT NULL PRIMARY KEY,
    user_id      TEXT   NOT NULL,
    kind         TEXT   NOT NULL,
    suite        TEXT   NOT NULL,
    sealed       BYTEA  NOT NULL,
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL, -- 0: no code of it was given yet, and it is not asked for
    last_step    BIGINT NOT NULL  -- time step of the newest code that was accepted: no code of it, or of one before, is accepted again
);
CREATE INDEX identity_factors_user ON identity_factors (user_id);
CREATE UNIQUE INDEX identity_factors_totp ON identity_factors (user_id) WHERE kind = 'totp' AND confirmed_at <> 0;
-- Codes that stand in for a lost factor, each once: keyed digests of those that are left.
CREATE TABLE identity_recovery_codes (
    digest  TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL
);
CREATE INDEX identity_recovery_codes_user ON identity_recovery_codes (user_id);
-- What a sign-in has shown beside the password, '' for nothing, and when last.
ALTER TABLE identity_sessions ADD COLUMN factor TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_sessions ADD COLUMN factor_at BIGINT NOT NULL DEFAULT 0;
-- Binaries of before would let people in who show no second factor.
UPDATE installation_compatibility SET floor = 31;
