-- +goose Up
-- The keyed digest of the person for whom somebody acted. No release before this one recorded it.
ALTER TABLE audit_events ADD COLUMN on_behalf_of TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_events_on_behalf_of ON audit_events (on_behalf_of, time, id) WHERE on_behalf_of <> '';

-- The time of the record, so that a position finds its record in one time range.
ALTER TABLE audit_leaves ADD COLUMN time BIGINT NOT NULL DEFAULT 0;
DROP TRIGGER audit_leaves_no_update;
UPDATE audit_leaves SET time = COALESCE((SELECT e.time FROM audit_events AS e WHERE e.writer = audit_leaves.writer AND e.seq = audit_leaves.seq), 0);
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_no_update BEFORE UPDATE ON audit_leaves
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: records are written once and never changed');
END;
-- +goose StatementEnd

-- What records are searched by. A facet is what many records have in common, a term is what few have; their ids depend on nothing but
-- their content. All of it is derived from the payloads, and verified with them. Apply fills it in for older records.
CREATE TABLE audit_facets (
    id         BLOB NOT NULL PRIMARY KEY,
    tenant     TEXT NOT NULL,
    project    TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor      TEXT NOT NULL,
    actor_name TEXT NOT NULL,
    action     TEXT NOT NULL,
    stage      TEXT NOT NULL,
    model      TEXT NOT NULL,
    routed     TEXT NOT NULL,
    version    TEXT NOT NULL,
    policy     TEXT NOT NULL,
    rollout    TEXT NOT NULL,
    arm        TEXT NOT NULL,
    decision   TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    error_code TEXT NOT NULL,
    classes    TEXT NOT NULL,
    text       TEXT NOT NULL
);
CREATE INDEX audit_facets_tenant ON audit_facets (tenant);
CREATE INDEX audit_facets_actor ON audit_facets (actor);
CREATE INDEX audit_facets_action ON audit_facets (action);
CREATE INDEX audit_facets_model ON audit_facets (model);
CREATE INDEX audit_facets_outcome ON audit_facets (outcome);
CREATE INDEX audit_facets_project ON audit_facets (project);
CREATE INDEX audit_facets_policy ON audit_facets (policy);
CREATE INDEX audit_facets_version ON audit_facets (version);
CREATE INDEX audit_facets_rollout ON audit_facets (rollout);

CREATE TABLE audit_terms (
    id     BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    text   TEXT NOT NULL
);
CREATE INDEX audit_terms_tenant ON audit_terms (tenant);

-- The records that have a term.
CREATE TABLE audit_postings (
    term  BLOB NOT NULL,
    time  BIGINT NOT NULL,
    id    TEXT NOT NULL,
    facet BLOB NOT NULL,
    PRIMARY KEY (term, time, id)
) WITHOUT ROWID;

ALTER TABLE audit_events ADD COLUMN facet BLOB NOT NULL DEFAULT X'';
CREATE INDEX audit_events_facet ON audit_events (facet, time, id);
CREATE INDEX audit_events_source ON audit_events (source, time, id) WHERE source <> '';
CREATE INDEX audit_events_session ON audit_events (session) WHERE session <> '';
-- An actor is found by its facets, and most records belong to no rollout.
DROP INDEX audit_events_actor;
DROP INDEX audit_events_rollout;
CREATE INDEX audit_events_rollout ON audit_events (rollout, stage, time) WHERE rollout <> '';

-- A process of the release before, which knows neither column, is refused: what it has waits in its write-ahead log.
-- +goose StatementBegin
CREATE TRIGGER audit_events_facet BEFORE INSERT ON audit_events WHEN length(NEW.facet) = 0
BEGIN
    SELECT RAISE(ABORT, 'audit_events: stop the processes of the release before, they do not write what records are searched by');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER audit_leaves_time BEFORE INSERT ON audit_leaves WHEN NEW.time = 0
BEGIN
    SELECT RAISE(ABORT, 'audit_leaves: stop the processes of the release before, they do not write the time of a position');
END;
-- +goose StatementEnd

-- The binaries before do not write what records are searched by.
UPDATE installation_compatibility SET floor = 11;
