-- +goose Up
-- Versions of documents are kept. Each is in effect from valid_from until valid_until (UTC unix µs; 0: no end); those of a document do not overlap.
CREATE TABLE rag_versions (
    id          TEXT    NOT NULL PRIMARY KEY, -- document.vN
    collection  TEXT    NOT NULL,
    document    TEXT    NOT NULL,
    version     BIGINT  NOT NULL,
    mime        TEXT    NOT NULL,
    title       TEXT    NOT NULL,
    digest      TEXT    NOT NULL,
    embedder    TEXT    NOT NULL,
    content     TEXT    NOT NULL,
    known       TEXT    NOT NULL,
    sealed      BYTEA,
    suite       TEXT    NOT NULL,
    epoch       BIGINT  NOT NULL,
    chunks      INTEGER NOT NULL,
    valid_from  BIGINT  NOT NULL,
    valid_until BIGINT  NOT NULL,
    created_at  BIGINT  NOT NULL,
    UNIQUE (document, version)
);
-- What is there is one version, in effect since it came in.
INSERT INTO rag_versions (id, collection, document, version, mime, title, digest, embedder, content, known, sealed, suite, epoch, chunks, valid_from, valid_until, created_at)
    SELECT id || '.v' || version, collection, id, version, mime, title, digest, embedder, content, known, sealed, suite, epoch, chunks, updated_at, 0, updated_at FROM rag_documents;
CREATE INDEX rag_versions_collection ON rag_versions (collection);
CREATE INDEX rag_versions_in_clear ON rag_versions (id) WHERE suite = '';
CREATE INDEX rag_versions_epoch ON rag_versions (epoch, id);
DROP INDEX rag_documents_in_clear;
DROP INDEX rag_documents_epoch;
ALTER TABLE rag_documents DROP COLUMN mime;
ALTER TABLE rag_documents DROP COLUMN title;
ALTER TABLE rag_documents DROP COLUMN digest;
ALTER TABLE rag_documents DROP COLUMN embedder;
ALTER TABLE rag_documents DROP COLUMN content;
ALTER TABLE rag_documents DROP COLUMN known;
ALTER TABLE rag_documents DROP COLUMN sealed;
ALTER TABLE rag_documents DROP COLUMN suite;
ALTER TABLE rag_documents DROP COLUMN epoch;
ALTER TABLE rag_documents DROP COLUMN chunks;
-- Who may see it, beside its labels: a keyed digest and JSON, '' for nothing. version is the last number that was given.
ALTER TABLE rag_documents ADD COLUMN rule TEXT NOT NULL DEFAULT '';
-- How many versions that are no longer in effect are kept, and how many days after their end; 0: all, for good.
ALTER TABLE rag_collections ADD COLUMN keep_versions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE rag_collections ADD COLUMN keep_days BIGINT NOT NULL DEFAULT 0;
ALTER TABLE rag_collections ADD COLUMN settings BIGINT NOT NULL DEFAULT 1; -- their version
-- Binaries of before would find no documents, and know no rules.
UPDATE installation_compatibility SET floor = 50;
