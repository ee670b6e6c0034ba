-- +goose Up
-- Values that a document says are sensitive: JSON, empty for none.
ALTER TABLE rag_documents ADD COLUMN known TEXT NOT NULL DEFAULT '';
