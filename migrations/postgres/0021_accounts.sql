-- +goose Up
-- The person a key belongs to; '' for a key of the tenant. A key of a person ends with the person's account.
ALTER TABLE identity_keys ADD COLUMN owner TEXT NOT NULL DEFAULT '';
CREATE INDEX identity_keys_owner ON identity_keys (owner);
-- 1: the password was set by somebody else, and nothing else is allowed until it is changed.
ALTER TABLE identity_users ADD COLUMN must_change BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_users ADD COLUMN last_sign_in_at BIGINT NOT NULL DEFAULT 0; -- 0: not since this column is there
