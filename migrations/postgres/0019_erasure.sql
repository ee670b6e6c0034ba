-- +goose Up
-- Whose values a conversation holds: each person who took part, as the digest that the audit log has for kept texts. '' is somebody unknown:
-- nobody can say who took part before this table was there.
CREATE TABLE vault_subjects (
    scope      BYTEA  NOT NULL,
    subject    TEXT   NOT NULL,
    tenant     TEXT   NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen  BIGINT NOT NULL,
    PRIMARY KEY (scope, subject)
);
CREATE INDEX vault_subjects_subject ON vault_subjects (tenant, subject);
INSERT INTO vault_subjects (scope, subject, tenant, first_seen, last_seen) SELECT scope, '', tenant, 0, 0 FROM vault_scopes;

-- Whoever erases values counts this up, whoever stores some shares it: what a replica remembers to be stored holds for one count.
CREATE TABLE vault_state (
    id         BIGINT NOT NULL PRIMARY KEY,
    generation BIGINT NOT NULL
);
INSERT INTO vault_state (id, generation) VALUES (1, 0);

-- What was erased at which count, a person's digest or a scope in hex: what a turn brings that began before is not stored any more. It is
-- forgotten after a day, which no turn takes.
CREATE TABLE vault_erasures (
    tenant     TEXT   NOT NULL,
    what       TEXT   NOT NULL,
    generation BIGINT NOT NULL,
    time       BIGINT NOT NULL,
    PRIMARY KEY (tenant, what, generation)
);
CREATE INDEX vault_erasures_time ON vault_erasures (time);

-- Approvals are of reveals, as before, or of other acts; they may be declined.
ALTER TABLE reveal_approvals ADD COLUMN kind TEXT NOT NULL DEFAULT 'reveal';
ALTER TABLE reveal_approvals ADD COLUMN declined BIGINT NOT NULL DEFAULT 0;
ALTER TABLE reveal_approvals ADD COLUMN declined_by TEXT NOT NULL DEFAULT '';
ALTER TABLE reveal_approvals ADD COLUMN declined_name TEXT NOT NULL DEFAULT '';
ALTER TABLE reveal_approvals ADD COLUMN decline_reason TEXT NOT NULL DEFAULT '';

-- A hold may be on one person, by digest.
ALTER TABLE audit_holds ADD COLUMN subject TEXT NOT NULL DEFAULT '';
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_holds_keep() RETURNS trigger AS $$
BEGIN
    IF OLD.released = 0 AND NEW.released <> 0
        AND (NEW.id, NEW.tenant, NEW.request, NEW.actor, NEW.since, NEW.before, NEW.reason, NEW.created, NEW.created_by, NEW.subject)
          = (OLD.id, OLD.tenant, OLD.request, OLD.actor, OLD.since, OLD.before, OLD.reason, OLD.created, OLD.created_by, OLD.subject) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit_holds: a hold is released once and otherwise never changed';
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
