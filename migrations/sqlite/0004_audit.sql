-- +goose Up
CREATE TABLE audit_events (
    writer            TEXT   NOT NULL,
    seq               BIGINT NOT NULL,
    id                TEXT   NOT NULL,
    request           TEXT   NOT NULL,
    stage             TEXT   NOT NULL,
    time              BIGINT NOT NULL,
    tenant            TEXT   NOT NULL,
    project           TEXT   NOT NULL,
    actor_kind        TEXT   NOT NULL,
    actor             TEXT   NOT NULL,
    session           TEXT   NOT NULL,
    source            TEXT   NOT NULL,
    action            TEXT   NOT NULL,
    resource          TEXT   NOT NULL,
    model             TEXT   NOT NULL,
    routed            TEXT   NOT NULL,
    version           TEXT   NOT NULL,
    policy            TEXT   NOT NULL,
    rollout           TEXT   NOT NULL,
    arm               TEXT   NOT NULL,
    decision          TEXT   NOT NULL,
    outcome           TEXT   NOT NULL,
    error_code        TEXT   NOT NULL,
    status            BIGINT NOT NULL,
    prompt_tokens     BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    cost              BIGINT NOT NULL,
    first_token       BIGINT NOT NULL,
    total             BIGINT NOT NULL,
    payload           BLOB   NOT NULL,
    leaf_hash         BLOB   NOT NULL,
    PRIMARY KEY (writer, seq)
);
CREATE UNIQUE INDEX audit_events_id ON audit_events (id);
CREATE INDEX audit_events_time ON audit_events (time, id);
CREATE INDEX audit_events_tenant ON audit_events (tenant, time, id);
CREATE INDEX audit_events_actor ON audit_events (actor, time, id);
CREATE INDEX audit_events_request ON audit_events (request, stage);
CREATE INDEX audit_events_rollout ON audit_events (rollout, stage, time);

-- The tree: the position of every sealed record, and the stored hashes in the order of sumdb/tlog.
CREATE TABLE audit_leaves (
    idx       BIGINT NOT NULL PRIMARY KEY,
    writer    TEXT   NOT NULL,
    seq       BIGINT NOT NULL,
    leaf_hash BLOB   NOT NULL
);
CREATE UNIQUE INDEX audit_leaves_record ON audit_leaves (writer, seq);

CREATE TABLE audit_hashes (
    idx  BIGINT NOT NULL PRIMARY KEY,
    hash BLOB   NOT NULL
);

-- Signed notes in the C2SP tlog-checkpoint format, by tree size.
CREATE TABLE audit_checkpoints (
    size BIGINT NOT NULL PRIMARY KEY,
    note TEXT   NOT NULL
);

-- Records whose usage the ledger refused for good; reconciliation works them off.
CREATE TABLE audit_unbooked (
    writer TEXT   NOT NULL,
    seq    BIGINT NOT NULL,
    cause  TEXT   NOT NULL,
    PRIMARY KEY (writer, seq)
);

-- Bookkeeping, no evidence: how far each writer's records are in the database and in the tree, and which replica seals.
CREATE TABLE audit_writers (
    writer  TEXT   NOT NULL PRIMARY KEY,
    shipped BIGINT NOT NULL,
    sealed  BIGINT NOT NULL
);

CREATE TABLE audit_lease (
    name    TEXT   NOT NULL PRIMARY KEY,
    holder  TEXT   NOT NULL,
    expires BIGINT NOT NULL
);
INSERT INTO audit_lease (name, holder, expires) VALUES ('seal', '', 0);

-- Evidence is written once.
-- +goose StatementBegin
CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events
BEGIN
    SELECT RAISE(ABORT, 'audit_events: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events
BEGIN
    SELECT RAISE(ABORT, 'audit_events: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_no_update BEFORE UPDATE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_no_delete BEFORE DELETE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_hashes_no_update BEFORE UPDATE ON audit_hashes
BEGIN
    SELECT RAISE(ABORT, 'audit_hashes: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_hashes_no_delete BEFORE DELETE ON audit_hashes
BEGIN
    SELECT RAISE(ABORT, 'audit_hashes: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_checkpoints_no_update BEFORE UPDATE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints: records are written once and never changed');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_checkpoints_no_delete BEFORE DELETE ON audit_checkpoints
BEGIN
    SELECT RAISE(ABORT, 'audit_checkpoints: records are written once and never changed');
END;
-- +goose StatementEnd
