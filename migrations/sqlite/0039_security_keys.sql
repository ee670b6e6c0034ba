-- +goose Up
-- Second factors of the kind 'webauthn': one row for each security key or passkey. sealed is its public key with its id, encrypted; last_step is
-- the newest signature count that was accepted (0: it counts none).
ALTER TABLE identity_factors ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0; -- of the wrapping keys
ALTER TABLE identity_factors ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_factors ADD COLUMN credential TEXT NOT NULL DEFAULT ''; -- keyed digest of the id of a security key
ALTER TABLE identity_factors ADD COLUMN backed_up BIGINT NOT NULL DEFAULT 0; -- 1: its private key is copied to other devices
ALTER TABLE identity_factors ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_factors ADD COLUMN suspect_at BIGINT NOT NULL DEFAULT 0; -- when its count went backwards: not accepted since
CREATE UNIQUE INDEX identity_factors_credential ON identity_factors (credential) WHERE credential <> '';
CREATE INDEX identity_factors_epoch ON identity_factors (epoch, id);
-- What security keys are asked to sign: keyed digests of the challenge with its purpose, account and sign-in. Who takes one deletes it.
CREATE TABLE identity_challenges (
    digest     TEXT   NOT NULL PRIMARY KEY,
    user_id    TEXT   NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX identity_challenges_user ON identity_challenges (user_id, expires_at);
CREATE INDEX identity_challenges_expiry ON identity_challenges (expires_at);
-- Until when administrators have to have a second factor because some replica has said so.
CREATE TABLE identity_factor_demand (
    name  TEXT   NOT NULL PRIMARY KEY,
    until BIGINT NOT NULL
);
INSERT INTO identity_factor_demand (name, until) VALUES ('administrators', 0);
-- A rotation of the wrapping keys that is under way takes the second factors in, and its grace begins anew.
INSERT INTO wrapping_progress (kind, position, total, done, unreadable, complete)
    SELECT 'second_factors', '', (SELECT COUNT(*) FROM identity_factors), 0, 0, 0 FROM wrapping_rotation WHERE begun <> 0 AND finished = 0;
UPDATE wrapping_rotation SET emptied = 0 WHERE begun <> 0 AND finished = 0;
-- Binaries of before would refuse who has only a security key, ask for no factor where their configuration says off, and could not read the
-- secrets that a rotation has moved.
UPDATE installation_compatibility SET floor = 39;
