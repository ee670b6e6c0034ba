-- +goose Up
ALTER TABLE identity_users ADD COLUMN password_set_at BIGINT NOT NULL DEFAULT 0; -- 0: not since this column is there
-- Until when a password that somebody else has set opens its change; 0: as long as it takes.
ALTER TABLE identity_users ADD COLUMN one_time_until BIGINT NOT NULL DEFAULT 0;
-- Passwords that were replaced, so that they are not chosen again.
CREATE TABLE identity_passwords (
    user_id     TEXT   NOT NULL,
    hash        TEXT   NOT NULL,
    replaced_at BIGINT NOT NULL
);
CREATE INDEX identity_passwords_user ON identity_passwords (user_id, replaced_at);
