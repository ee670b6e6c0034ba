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
    payload           BYTEA  NOT NULL,
    leaf_hash         BYTEA  NOT NULL,
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
    leaf_hash BYTEA  NOT NULL
);
CREATE UNIQUE INDEX audit_leaves_record ON audit_leaves (writer, seq);

CREATE TABLE audit_hashes (
    idx  BIGINT NOT NULL PRIMARY KEY,
    hash BYTEA  NOT NULL
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
CREATE FUNCTION audit_reject() RETURNS trigger AS $$
BEGIN
    RAISE EXCEPTION '%: records are written once and never changed', TG_TABLE_NAME;
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
CREATE TRIGGER audit_events_no_change BEFORE UPDATE OR DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_leaves_no_change BEFORE UPDATE OR DELETE ON audit_leaves FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_leaves_no_truncate BEFORE TRUNCATE ON audit_leaves FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_hashes_no_change BEFORE UPDATE OR DELETE ON audit_hashes FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_hashes_no_truncate BEFORE TRUNCATE ON audit_hashes FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_checkpoints_no_change BEFORE UPDATE OR DELETE ON audit_checkpoints FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_checkpoints_no_truncate BEFORE TRUNCATE ON audit_checkpoints FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
