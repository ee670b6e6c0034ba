-- +goose Up
-- What the arms of a rollout did since a time, kept up as records come, so that an evaluation does not read them all. It is derived from
-- audit_events. A window counts the records from since on, in the order of time and id up to at_time and at_id, but for those in audit_arm_news.
CREATE TABLE audit_arm_windows (
    id      TEXT   NOT NULL PRIMARY KEY,
    rollout TEXT   NOT NULL,
    since   BIGINT NOT NULL, -- UTC unix µs
    opened  BIGINT NOT NULL, -- UTC unix µs
    at_time BIGINT NOT NULL,
    at_id   TEXT   NOT NULL,
    sums    TEXT   NOT NULL -- JSON, by arm
);
CREATE UNIQUE INDEX audit_arm_windows_since ON audit_arm_windows (rollout, since);

-- The conversations of a window; a request without one is its own.
CREATE TABLE audit_arm_units (
    win       TEXT   NOT NULL,
    arm       TEXT   NOT NULL,
    unit      TEXT   NOT NULL,
    requests  BIGINT NOT NULL,
    failed    BIGINT NOT NULL,
    refused   BIGINT NOT NULL,
    answered  BIGINT NOT NULL,
    tokens    BIGINT NOT NULL,
    cost      BIGINT NOT NULL,
    answers   BIGINT NOT NULL,
    PRIMARY KEY (win, arm, unit)
);

-- Records that came and are not counted yet. A trigger fills it, so that a replica of the release before does, too.
CREATE TABLE audit_arm_news (
    rollout TEXT   NOT NULL,
    time    BIGINT NOT NULL,
    id      TEXT   NOT NULL,
    PRIMARY KEY (rollout, time, id)
);

-- +goose StatementBegin
CREATE FUNCTION audit_events_arms() RETURNS trigger AS $$
BEGIN
    -- Whoever opens a window waits for the transactions that have not seen it.
    LOCK TABLE audit_arm_windows IN ROW EXCLUSIVE MODE;
    INSERT INTO audit_arm_news (rollout, time, id) SELECT NEW.rollout, NEW.time, NEW.id
        WHERE EXISTS (SELECT 1 FROM audit_arm_windows AS w WHERE w.rollout = NEW.rollout AND w.since <= NEW.time) ON CONFLICT DO NOTHING;
    RETURN NULL;
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
-- By row, so that records of no rollout cost nothing.
CREATE TRIGGER audit_events_arms AFTER INSERT ON audit_events FOR EACH ROW
WHEN (NEW.rollout <> '' AND NEW.arm <> '' AND NEW.stage = 'outcome' AND NEW.outcome IN ('ok', 'failed', 'aborted', 'refused')) EXECUTE FUNCTION audit_events_arms();

-- The slowest answers of an arm.
CREATE INDEX audit_events_arm ON audit_events (rollout, arm, total) WHERE rollout <> '' AND stage = 'outcome' AND outcome = 'ok';
