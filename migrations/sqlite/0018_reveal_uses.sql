-- +goose Up
-- What somebody else approved is told apart from what nobody did.
ALTER TABLE reveal_uses ADD COLUMN approval TEXT NOT NULL DEFAULT '';
