-- +goose Up
-- What was pruned: one row for each range of positions whose records were archived and removed, in the order of the tree and without a gap.
CREATE TABLE audit_prunings (
    first_index BIGINT NOT NULL PRIMARY KEY,
    until_index BIGINT NOT NULL,
    kept        BIGINT NOT NULL, -- records of the range that stay, see audit_vault
    root        TEXT   NOT NULL, -- hex, of the tree of the records below until_index
    oldest      BIGINT NOT NULL, -- times of the records
    newest      BIGINT NOT NULL,
    size        BIGINT NOT NULL, -- of the checkpoint in the archive
    archive     TEXT   NOT NULL, -- file name of the evidence bundle
    digest      TEXT   NOT NULL, -- hex SHA-256 of that file
    record      TEXT   NOT NULL, -- id of the audit record that says so
    time        BIGINT NOT NULL,
    actor       TEXT   NOT NULL
);

-- The last sequence of each writer below a minimum index: what an old copy of a write-ahead log brings again is known by it.
CREATE TABLE audit_pruned (
    writer      TEXT   NOT NULL,
    until_index BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    PRIMARY KEY (writer, until_index)
);

-- Records that stay when their range is pruned, each with the proof that it is in the tree. The proof is emptied, and the record removed,
-- when its time is over and no hold asks for it.
CREATE TABLE audit_vault (
    idx    BIGINT NOT NULL PRIMARY KEY,
    id     TEXT   NOT NULL,
    tenant TEXT   NOT NULL,
    reason TEXT   NOT NULL, -- class or hold
    until  BIGINT NOT NULL, -- time before which nobody can remove it
    proof  TEXT   NOT NULL
);
CREATE UNIQUE INDEX audit_vault_id ON audit_vault (id);
CREATE INDEX audit_vault_until ON audit_vault (until) WHERE proof <> '';

-- Legal holds. Empty filters mean all; since and before are times of records, before 0 is open.
CREATE TABLE audit_holds (
    id          TEXT   NOT NULL PRIMARY KEY,
    tenant      TEXT   NOT NULL,
    request     TEXT   NOT NULL,
    actor       TEXT   NOT NULL,
    since       BIGINT NOT NULL,
    before      BIGINT NOT NULL,
    reason      TEXT   NOT NULL,
    created     BIGINT NOT NULL,
    created_by  TEXT   NOT NULL,
    released    BIGINT NOT NULL,
    released_by TEXT   NOT NULL
);
CREATE INDEX audit_holds_tenant ON audit_holds (tenant, created);

INSERT INTO audit_lease (name, holder, expires) VALUES ('prune', '', 0);

-- Records lie in one table a month, by their time: what is pruned whole is dropped, and what is searched by time is found in few of them.
-- There is no default partition, so that attaching a month locks nobody out; the ends take what no clock of today writes.
ALTER TABLE audit_events RENAME TO audit_events_old;
-- +goose StatementBegin
DO $$
DECLARE
    definitions TEXT[];
    definition  TEXT;
BEGIN
    SELECT array_agg(indexdef) INTO definitions FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename = 'audit_events_old' AND indexdef NOT LIKE 'CREATE UNIQUE%';
    FOR definition IN SELECT 'DROP INDEX ' || quote_ident(indexname) FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename = 'audit_events_old' AND indexdef NOT LIKE 'CREATE UNIQUE%'
    LOOP
        EXECUTE definition;
    END LOOP;
    CREATE TABLE audit_events (LIKE audit_events_old INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (time);
    FOREACH definition IN ARRAY definitions LOOP
        EXECUTE replace(definition, 'audit_events_old', 'audit_events');
    END LOOP;
END;
$$;
-- +goose StatementEnd
CREATE TABLE audit_events_before PARTITION OF audit_events FOR VALUES FROM (MINVALUE) TO (1577836800000000); -- 2020
CREATE TABLE audit_events_after PARTITION OF audit_events FOR VALUES FROM (4102444800000000) TO (MAXVALUE); -- 2100
CREATE TRIGGER audit_events_before_no_truncate BEFORE TRUNCATE ON audit_events_before FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_events_after_no_truncate BEFORE TRUNCATE ON audit_events_after FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();

-- audit_partition makes sure that there is a partition for a time.
-- +goose StatementBegin
CREATE FUNCTION audit_partition(at BIGINT) RETURNS VOID AS $$
DECLARE
    month TIMESTAMP;
    name  TEXT;
BEGIN
    IF at < 1577836800000000 OR at >= 4102444800000000 THEN
        RETURN;
    END IF;
    month := date_trunc('month', to_timestamp(at / 1000000) AT TIME ZONE 'UTC');
    name := 'audit_events_' || to_char(month, 'YYYYMM');
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('audit_partition'));
    PERFORM 1 FROM pg_class WHERE relname = name AND relnamespace = current_schema()::regnamespace; -- to_regclass may not know yet
    IF FOUND THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE audit_events INCLUDING DEFAULTS INCLUDING STORAGE)', name);
    EXECUTE format('ALTER TABLE audit_events ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)', name,
        extract(epoch FROM month)::BIGINT * 1000000, extract(epoch FROM month + INTERVAL '1 month')::BIGINT * 1000000);
    EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION audit_reject()', name || '_no_truncate', name);
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd

-- This month and the next are there before anyone writes: replicas of the release before make none.
SELECT audit_partition((extract(epoch FROM now()) * 1000000)::BIGINT);
SELECT audit_partition((extract(epoch FROM now() + INTERVAL '1 month') * 1000000)::BIGINT);
SELECT audit_partition(month) FROM (
    SELECT DISTINCT (extract(epoch FROM date_trunc('month', to_timestamp(time / 1000000) AT TIME ZONE 'UTC')) * 1000000)::BIGINT AS month
    FROM audit_events_old WHERE time >= 1577836800000000 AND time < 4102444800000000) AS months;
INSERT INTO audit_events SELECT * FROM audit_events_old;
DROP TABLE audit_events_old;
ALTER TABLE audit_events ADD PRIMARY KEY (writer, seq, time);
CREATE UNIQUE INDEX audit_events_id ON audit_events (id, time);

-- Records and their positions go only below the minimum index, and only those that nobody keeps.
-- +goose StatementBegin
CREATE FUNCTION audit_events_keep() RETURNS trigger AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM audit_leaves AS l WHERE l.writer = OLD.writer AND l.seq = OLD.seq AND l.idx < (SELECT MAX(until_index) FROM audit_prunings))
        AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.id = OLD.id AND v.proof <> '') THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_events: records are written once and never changed, and removed only by sluice audit prune';
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION audit_leaves_keep() RETURNS trigger AS $$
BEGIN
    IF OLD.idx < (SELECT MAX(until_index) FROM audit_prunings) AND NOT EXISTS (SELECT 1 FROM audit_vault AS v WHERE v.idx = OLD.idx AND v.proof <> '') THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_leaves: records are written once and never changed, and removed only by sluice audit prune';
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events FOR EACH ROW EXECUTE FUNCTION audit_events_keep();
CREATE TRIGGER audit_events_no_truncate BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
DROP TRIGGER audit_leaves_no_change ON audit_leaves;
CREATE TRIGGER audit_leaves_no_update BEFORE UPDATE ON audit_leaves FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_leaves_no_delete BEFORE DELETE ON audit_leaves FOR EACH ROW EXECUTE FUNCTION audit_leaves_keep();

-- What was pruned stays known.
CREATE TRIGGER audit_prunings_no_change BEFORE UPDATE OR DELETE ON audit_prunings FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_prunings_no_truncate BEFORE TRUNCATE ON audit_prunings FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_pruned_no_change BEFORE UPDATE OR DELETE ON audit_pruned FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_pruned_no_truncate BEFORE TRUNCATE ON audit_pruned FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
-- +goose StatementBegin
CREATE FUNCTION audit_vault_keep() RETURNS trigger AS $$
BEGIN
    IF NEW.proof = '' AND OLD.until <= (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT
        AND (NEW.idx, NEW.id, NEW.tenant, NEW.reason, NEW.until) = (OLD.idx, OLD.id, OLD.tenant, OLD.reason, OLD.until) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit_vault: a record in the vault stays until its time is over';
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
CREATE TRIGGER audit_vault_no_update BEFORE UPDATE ON audit_vault FOR EACH ROW EXECUTE FUNCTION audit_vault_keep();
CREATE TRIGGER audit_vault_no_delete BEFORE DELETE ON audit_vault FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_vault_no_truncate BEFORE TRUNCATE ON audit_vault FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
-- +goose StatementBegin
CREATE FUNCTION audit_holds_keep() RETURNS trigger AS $$
BEGIN
    IF OLD.released = 0 AND NEW.released <> 0
        AND (NEW.id, NEW.tenant, NEW.request, NEW.actor, NEW.since, NEW.before, NEW.reason, NEW.created, NEW.created_by)
          = (OLD.id, OLD.tenant, OLD.request, OLD.actor, OLD.since, OLD.before, OLD.reason, OLD.created, OLD.created_by) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'audit_holds: a hold is released once and otherwise never changed';
END;
$$ LANGUAGE plpgsql;
-- +goose StatementEnd
CREATE TRIGGER audit_holds_no_update BEFORE UPDATE ON audit_holds FOR EACH ROW EXECUTE FUNCTION audit_holds_keep();
CREATE TRIGGER audit_holds_no_delete BEFORE DELETE ON audit_holds FOR EACH ROW EXECUTE FUNCTION audit_reject();
CREATE TRIGGER audit_holds_no_truncate BEFORE TRUNCATE ON audit_holds FOR EACH STATEMENT EXECUTE FUNCTION audit_reject();
