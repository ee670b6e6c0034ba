-- +goose Up
CREATE TABLE file_tenants ( -- a row to lock: a tenant's files change one after the other
    tenant TEXT NOT NULL PRIMARY KEY
);
CREATE TABLE file_blobs ( -- contents, each once in a tenant, under a data key of its own
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    digest     TEXT   NOT NULL, -- keyed; '' while it arrives
    size       BIGINT NOT NULL, -- of the content
    chunks     BIGINT NOT NULL,
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL,
    wrapped    BYTEA  NOT NULL, -- the data key
    touched_at BIGINT NOT NULL
);
CREATE INDEX file_blobs_tenant ON file_blobs (tenant, digest);
CREATE TABLE file_chunks (
    blob   TEXT   NOT NULL,
    number BIGINT NOT NULL,
    sealed BYTEA  NOT NULL,
    PRIMARY KEY (blob, number)
);
CREATE TABLE file_files (
    id         TEXT   NOT NULL PRIMARY KEY,
    tenant     TEXT   NOT NULL,
    project    TEXT   NOT NULL,
    person     TEXT   NOT NULL, -- whose own keys share it; '': the keys of the project
    purpose    TEXT   NOT NULL,
    blob       TEXT   NOT NULL,
    name       BYTEA  NOT NULL, -- sealed under the key of the blob
    holds      BIGINT NOT NULL, -- batches that read it
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL -- 0: never
);
CREATE INDEX file_files_owner ON file_files (tenant, project, person, created_at, id);
CREATE INDEX file_files_blob ON file_files (blob);
CREATE INDEX file_files_expiry ON file_files (expires_at);
CREATE TABLE batch_batches (
    id               TEXT   NOT NULL PRIMARY KEY,
    tenant           TEXT   NOT NULL,
    project          TEXT   NOT NULL,
    person           TEXT   NOT NULL,
    actor_kind       TEXT   NOT NULL, -- who made it, and in whose name its lines are asked
    actor            TEXT   NOT NULL,
    scopes           TEXT   NOT NULL, -- JSON; what a token was narrowed to
    source           TEXT   NOT NULL,
    language         TEXT   NOT NULL,
    purpose          TEXT   NOT NULL, -- what its lines are asked for
    endpoint         TEXT   NOT NULL,
    input_file       TEXT   NOT NULL,
    output_file      TEXT   NOT NULL,
    error_file       TEXT   NOT NULL,
    state            TEXT   NOT NULL,
    ending           TEXT   NOT NULL, -- the state that finalizing leads to
    window_text      TEXT   NOT NULL,
    output_life      BIGINT NOT NULL, -- seconds; 0: the files of results never expire
    suite            TEXT   NOT NULL,
    epoch            BIGINT NOT NULL,
    wrapped          BYTEA  NOT NULL, -- the data key
    metadata         BYTEA  NOT NULL, -- sealed, with whom it is for
    problems         TEXT   NOT NULL, -- JSON: codes and lines
    total            BIGINT NOT NULL,
    completed        BIGINT NOT NULL,
    failed           BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL,
    in_progress_at   BIGINT NOT NULL,
    finalizing_at    BIGINT NOT NULL,
    cancelling_at    BIGINT NOT NULL,
    ended_at         BIGINT NOT NULL,
    holder           TEXT   NOT NULL,
    held_until       BIGINT NOT NULL
);
CREATE INDEX batch_batches_owner ON batch_batches (tenant, project, person, created_at, id);
CREATE INDEX batch_batches_state ON batch_batches (state, created_at);
CREATE TABLE batch_lines ( -- results until they are in the files of the batch
    batch  TEXT   NOT NULL,
    line   BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    sealed BYTEA  NOT NULL,
    PRIMARY KEY (batch, line)
);
