-- +goose Up
-- The person of an OpenID provider that an account belongs to. It is written with the account and stays; an account without one is local.
CREATE TABLE identity_bindings (
    issuer       TEXT   NOT NULL,
    subject      TEXT   NOT NULL,
    user_id      TEXT   NOT NULL UNIQUE,
    created_at   BIGINT NOT NULL, -- UTC unix µs
    confirmed_at BIGINT NOT NULL, -- the provider has vouched for the roles, to within a day
    factor       TEXT   NOT NULL, -- the second factor with which it did; '': none
    PRIMARY KEY (issuer, subject)
);
-- The provider that has vouched for a sign-in ('': a password has), a keyed digest of its session there, when the person proved there who he is
-- (0: not said), and when the sign-in ends in any case (0: as those by password do).
ALTER TABLE identity_sessions ADD COLUMN issuer TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_sessions ADD COLUMN provider_session TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_sessions ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_sessions ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX identity_sessions_provider ON identity_sessions (issuer, provider_session) WHERE issuer <> '';
-- Binaries of before would renew such sign-ins without what their end is known by.
UPDATE installation_compatibility SET floor = 60;
