-- +goose Up
CREATE TABLE rag_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO rag_changes (name, version) VALUES ('rag', 1);

CREATE TABLE rag_collections (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    title      TEXT   NOT NULL,
    labels     TEXT   NOT NULL,
    revision   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (tenant, name)
);

CREATE TABLE rag_documents (
    id         TEXT    NOT NULL PRIMARY KEY,
    collection TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    mime       TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    labels     TEXT    NOT NULL,
    version    BIGINT  NOT NULL,
    revision   BIGINT  NOT NULL,
    digest     TEXT    NOT NULL,
    embedder   TEXT    NOT NULL,
    content    TEXT    NOT NULL,
    chunks     INTEGER NOT NULL,
    created_at BIGINT  NOT NULL,
    updated_at BIGINT  NOT NULL,
    UNIQUE (collection, name)
);

CREATE TABLE rag_chunks (
    document TEXT    NOT NULL,
    version  BIGINT  NOT NULL,
    chunk    INTEGER NOT NULL,
    section  TEXT    NOT NULL,
    start_at INTEGER NOT NULL,
    end_at   INTEGER NOT NULL,
    vector   BYTEA   NOT NULL,
    PRIMARY KEY (document, version, chunk)
);
