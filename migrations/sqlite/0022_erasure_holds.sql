-- +goose Up
-- Whoever took part in a conversation is taken to do so until its time is over: not every turn gets here.
ALTER TABLE vault_subjects DROP COLUMN last_seen;
