-- +goose Up
-- What was shown in part counts, too; and what somebody else approved is told apart from what nobody did.
ALTER TABLE reveal_uses ADD COLUMN partial BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reveal_uses ADD COLUMN approval TEXT NOT NULL DEFAULT '';
