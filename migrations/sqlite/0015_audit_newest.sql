-- +goose Up
-- Every record of a list, that is of a facet, of a term or of an address within a facet, is from between oldest and newest: whole hours, so that
-- a list is touched once an hour. A search asks the lists that may hold the newest records of a time and leaves the others alone.
ALTER TABLE audit_facets ADD COLUMN oldest BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_facets ADD COLUMN newest BIGINT NOT NULL DEFAULT 0;
UPDATE audit_facets SET oldest = COALESCE((SELECT (MIN(e.time) / 3600000000 - 1) * 3600000000 FROM audit_events AS e WHERE e.facet = audit_facets.id), 0),
    newest = COALESCE((SELECT (MAX(e.time) / 3600000000 + 1) * 3600000000 FROM audit_events AS e WHERE e.facet = audit_facets.id), 0);
ALTER TABLE audit_terms ADD COLUMN oldest BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit_terms ADD COLUMN newest BIGINT NOT NULL DEFAULT 0;
UPDATE audit_terms SET oldest = COALESCE((SELECT (MIN(p.time) / 3600000000 - 1) * 3600000000 FROM audit_postings AS p WHERE p.term = audit_terms.id), 0),
    newest = COALESCE((SELECT (MAX(p.time) / 3600000000 + 1) * 3600000000 FROM audit_postings AS p WHERE p.term = audit_terms.id), 0);

-- The addresses that the records of a facet came from. The id is the facet in hexadecimal and the address.
CREATE TABLE audit_sources (
    id     BLOB   NOT NULL PRIMARY KEY,
    source TEXT   NOT NULL,
    facet  BLOB   NOT NULL,
    oldest BIGINT NOT NULL,
    newest BIGINT NOT NULL
);
CREATE INDEX audit_sources_source ON audit_sources (source);
INSERT INTO audit_sources (id, source, facet, oldest, newest)
    SELECT CAST(lower(hex(facet)) || source AS BLOB), source, facet, (MIN(time) / 3600000000 - 1) * 3600000000, (MAX(time) / 3600000000 + 1) * 3600000000
    FROM audit_events WHERE source <> '' GROUP BY source, facet;
DROP INDEX audit_events_source;
CREATE INDEX audit_events_source ON audit_events (source, facet, time, id) WHERE source <> '';

-- The binaries before do not keep them.
UPDATE installation_compatibility SET floor = 15;
