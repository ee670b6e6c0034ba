-- +goose Up
CREATE TABLE reply_replies ( -- answers that are kept for a while, and claims of requests that are at work on one
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    owner      TEXT   NOT NULL, -- whose it is: a project, a person, or the caller whose key it stands under
    subject    TEXT   NOT NULL, -- digest of the person it was made for; '': nobody known
    request    TEXT   NOT NULL, -- keyed digest of what was asked with a key; '': a response
    claim      TEXT   NOT NULL, -- the request at work; '': the answer is kept
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    wrapped    BLOB   NOT NULL, -- the data key
    sealed     BLOB   NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX reply_replies_expiry ON reply_replies (expires_at);
CREATE INDEX reply_replies_subject ON reply_replies (tenant, subject);
