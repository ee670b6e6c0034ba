-- +goose Up
ALTER TABLE batch_batches ADD COLUMN lines_expired BIGINT NOT NULL DEFAULT 0; -- of those that failed: the time was over
ALTER TABLE batch_batches ADD COLUMN lines_cancelled BIGINT NOT NULL DEFAULT 0; -- of those that failed: somebody ended the batch
