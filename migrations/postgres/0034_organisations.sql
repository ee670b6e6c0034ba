-- +goose Up
-- An organisation has tenants; its limits, budgets, policy and suspension are those of all of them together.
CREATE TABLE identity_organisations (
    id                  TEXT    NOT NULL PRIMARY KEY,
    name                TEXT    NOT NULL,
    labels              TEXT    NOT NULL, -- a JSON object of texts
    created_at          BIGINT  NOT NULL,
    suspended_at        BIGINT  NOT NULL,
    suspended_by        TEXT    NOT NULL,
    suspension          TEXT    NOT NULL,
    requests_per_minute INTEGER NOT NULL,
    tokens_per_minute   INTEGER NOT NULL,
    concurrent          INTEGER NOT NULL
);
INSERT INTO identity_organisations VALUES ('default', 'Default', '{}', CAST(EXTRACT(EPOCH FROM now()) AS BIGINT) * 1000000, 0, '', '', 0, 0, 0);

-- The defaults are also what the release before writes.
ALTER TABLE identity_tenants ADD COLUMN organisation TEXT NOT NULL DEFAULT 'default';
ALTER TABLE identity_tenants ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';

-- A project has keys of its tenant.
CREATE TABLE identity_projects (
    tenant              TEXT    NOT NULL,
    id                  TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    labels              TEXT    NOT NULL,
    created_at          BIGINT  NOT NULL,
    suspended_at        BIGINT  NOT NULL,
    suspended_by        TEXT    NOT NULL,
    suspension          TEXT    NOT NULL,
    requests_per_minute INTEGER NOT NULL,
    tokens_per_minute   INTEGER NOT NULL,
    concurrent          INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
);
INSERT INTO identity_projects
    SELECT tenant, project, project, '{}', MIN(created_at), 0, '', '', 0, 0, 0 FROM identity_keys WHERE project <> '' GROUP BY tenant, project;

-- The organisation of the tenant when the usage was booked. All tenants were of this one so far.
ALTER TABLE billing_usage ADD COLUMN organisation TEXT NOT NULL DEFAULT 'default';
