-- +goose Up
-- Terms of the glossaries of collections. id is a keyed digest of the term's name, which stands encrypted with its synonyms.
CREATE TABLE rag_glossary (
    id         TEXT   NOT NULL PRIMARY KEY,
    collection TEXT   NOT NULL,
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    sealed     BLOB   NOT NULL,
    updated_at BIGINT NOT NULL -- UTC unix µs
);
CREATE INDEX rag_glossary_collection ON rag_glossary (collection);
CREATE INDEX rag_glossary_epoch ON rag_glossary (epoch, id);
-- The revision of the collection at which its glossary was last changed, so that replicas read it again; 0: never.
ALTER TABLE rag_collections ADD COLUMN glossary BIGINT NOT NULL DEFAULT 0;
-- A rotation of the wrapping keys that a binary of before begins would destroy keys that terms need: it does not know that they are wrapped.
UPDATE installation_compatibility SET floor = 56;
