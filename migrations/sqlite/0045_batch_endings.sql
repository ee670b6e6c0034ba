-- +goose Up
ALTER TABLE batch_batches ADD COLUMN lines_expired BIGINT NOT NULL DEFAULT 0; -- of those that failed: the time was over
ALTER TABLE batch_batches ADD COLUMN lines_cancelled BIGINT NOT NULL DEFAULT 0; -- of those that failed: somebody ended the batch
-- Lists go by id, which orders batches as they came, so that a page can begin behind a batch that is gone.
DROP INDEX batch_batches_owner;
CREATE INDEX batch_batches_owner ON batch_batches (tenant, project, person, id);
-- The floor stays: binaries of schema 44 run on this one. While a release is rolled out, one of them that takes a batch of messages has a refusal of an engine
-- that is overloaded (529) for a result, and does not count why lines ended; the guide of administrators says from when on such batches are for use.
