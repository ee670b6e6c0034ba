-- +goose Up
-- JSON array of networks a key is accepted from; empty: from everywhere.
ALTER TABLE identity_keys ADD COLUMN networks TEXT NOT NULL DEFAULT '[]';
-- The secret before the last rotation: keyed digest of the credential, accepted until former_expires_at; ''/0: none.
ALTER TABLE identity_keys ADD COLUMN former_digest TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_keys ADD COLUMN former_expires_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_keys ADD COLUMN former_used_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_keys ADD COLUMN rotated_at BIGINT NOT NULL DEFAULT 0;
-- Where the last use came from: a /24 of IPv4 or a /48 of IPv6, never a whole address; '': not known.
ALTER TABLE identity_keys ADD COLUMN last_used_from TEXT NOT NULL DEFAULT '';
