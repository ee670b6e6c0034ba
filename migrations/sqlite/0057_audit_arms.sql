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
) WITHOUT ROWID;

-- Records that came and are not counted yet. A trigger fills it, so that a replica of the release before does, too.
CREATE TABLE audit_arm_news (
    rollout TEXT   NOT NULL,
    time    BIGINT NOT NULL,
    id      TEXT   NOT NULL,
    PRIMARY KEY (rollout, time, id)
) WITHOUT ROWID;

-- +goose StatementBegin
CREATE TRIGGER audit_events_arms AFTER INSERT ON audit_events
WHEN NEW.rollout <> '' AND NEW.arm <> '' AND NEW.stage = 'outcome' AND NEW.outcome IN ('ok', 'failed', 'aborted', 'refused')
    AND EXISTS (SELECT 1 FROM audit_arm_windows AS w WHERE w.rollout = NEW.rollout AND w.since <= NEW.time)
BEGIN
    INSERT INTO audit_arm_news (rollout, time, id) VALUES (NEW.rollout, NEW.time, NEW.id) ON CONFLICT DO NOTHING;
END;
-- +goose StatementEnd

-- The slowest answers of an arm.
CREATE INDEX audit_events_arm ON audit_events (rollout, arm, total) WHERE rollout <> '' AND stage = 'outcome' AND outcome = 'ok';
