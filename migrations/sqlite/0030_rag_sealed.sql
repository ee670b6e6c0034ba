-- +goose Up
-- What a document says is encrypted: title, digest, content, known values and the sections of its chunks stand in sealed, and their columns are
-- empty. suite names the algorithm; '': a release before has stored the row in clear, and it waits to be encrypted.
ALTER TABLE rag_documents ADD COLUMN sealed BLOB;
ALTER TABLE rag_documents ADD COLUMN suite TEXT NOT NULL DEFAULT '';
-- Which wait, without a look at the rows.
CREATE INDEX rag_documents_in_clear ON rag_documents (id) WHERE suite = '';
-- Binaries of before would find documents without text.
UPDATE installation_compatibility SET floor = 30;
