-- +goose Up
-- The last changes of each collection, so that a replica reads what changed since it looked last. document is '' for a change of the collection itself; mark is
-- random, so that a replica finds out that the tables were put back from a copy and have another history since.
CREATE TABLE rag_journal (
    collection TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    document   TEXT   NOT NULL,
    mark       TEXT   NOT NULL,
    PRIMARY KEY (collection, revision)
);
INSERT INTO rag_journal (collection, revision, document, mark) SELECT id, revision, '', lower(hex(randomblob(8))) FROM rag_collections;
-- A replica that has nothing reads all documents of a collection, in order of their ids.
CREATE INDEX rag_documents_collection ON rag_documents (collection, id);
-- Binaries of before would change documents without an entry.
UPDATE installation_compatibility SET floor = 51;
