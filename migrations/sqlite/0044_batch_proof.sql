-- +goose Up
ALTER TABLE batch_batches ADD COLUMN proof TEXT NOT NULL DEFAULT ''; -- what the credential that made it was compared with
ALTER TABLE batch_batches ADD COLUMN stored BIGINT NOT NULL DEFAULT 0; -- bytes of its results until they are in files
