-- +goose Up
-- Who brought a document, such as user:ID, so that whoever writes sees it in lists; '' for those that are there.
ALTER TABLE rag_documents ADD COLUMN creator TEXT NOT NULL DEFAULT '';
