-- +goose Up
-- Whoever took part in a conversation is taken to do so until its time is over: not every turn gets here.
ALTER TABLE vault_subjects DROP COLUMN last_seen;

-- Who released a hold, by id: it goes on binding this person for a day. '' where that is not known.
ALTER TABLE audit_holds ADD COLUMN releaser TEXT NOT NULL DEFAULT '';
