-- +goose Up
CREATE TABLE rollout_rollouts (
    id            TEXT    NOT NULL PRIMARY KEY,
    model         TEXT    NOT NULL,
    stable        TEXT    NOT NULL,
    candidate     TEXT    NOT NULL,
    spec          TEXT    NOT NULL, -- JSON
    starter       TEXT    NOT NULL, -- JSON
    phase         TEXT    NOT NULL,
    share         INTEGER NOT NULL, -- percent of conversations the candidate answers
    decision      TEXT    NOT NULL, -- JSON of the latest verdict, '' before the first
    checked_at    BIGINT  NOT NULL,
    seq           BIGINT  NOT NULL, -- of the latest transition
    started_at    BIGINT  NOT NULL,
    entered_at    BIGINT  NOT NULL,
    finished_at   BIGINT  NOT NULL  -- 0 while running
);
CREATE INDEX rollout_rollouts_model ON rollout_rollouts (model, started_at);

CREATE TABLE rollout_transitions (
    id        TEXT    NOT NULL PRIMARY KEY, -- <rollout>/<seq>, the key that makes a repeated transition one
    rollout   TEXT    NOT NULL,
    seq       BIGINT  NOT NULL,
    from_phase TEXT   NOT NULL,
    to_phase  TEXT    NOT NULL,
    share     INTEGER NOT NULL,
    at        BIGINT  NOT NULL,
    actor     TEXT    NOT NULL, -- JSON
    reason    TEXT    NOT NULL,
    evidence  TEXT    NOT NULL, -- hash, a key of rollout_evidence, or ''
    audit     TEXT    NOT NULL  -- id of the audit record, '' until it is written
);
CREATE INDEX rollout_transitions_rollout ON rollout_transitions (rollout, seq);

CREATE TABLE rollout_evidence (
    hash       TEXT   NOT NULL PRIMARY KEY,
    rollout    TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    body       TEXT   NOT NULL, -- canonical JSON; its SHA-256 is the hash
    thresholds TEXT   NOT NULL, -- JSON
    decision   TEXT   NOT NULL  -- JSON
);

CREATE TABLE rollout_capacity (
    name        TEXT   NOT NULL PRIMARY KEY,
    plan        TEXT   NOT NULL, -- JSON
    source      TEXT   NOT NULL, -- config or admin
    version     BIGINT NOT NULL, -- rises with every change of plan or concurrency
    slot        TEXT   NOT NULL, -- name of the window in force
    concurrency BIGINT NOT NULL,
    actor       TEXT   NOT NULL, -- JSON
    reason      TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    audit       TEXT   NOT NULL  -- id of the audit record of this version, '' until it is written
);
