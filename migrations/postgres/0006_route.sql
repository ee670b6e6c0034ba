-- +goose Up
CREATE TABLE route_versions (
    model        TEXT   NOT NULL,
    version      TEXT   NOT NULL,
    engine       TEXT   NOT NULL,
    engine_model TEXT   NOT NULL,
    digest       TEXT   NOT NULL,
    weight_plan  TEXT   NOT NULL,
    defaults     TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    PRIMARY KEY (model, version)
);

CREATE TABLE route_assignments (
    model      TEXT   NOT NULL PRIMARY KEY,
    stable     TEXT   NOT NULL,
    candidate  TEXT   NOT NULL,
    basis      BIGINT NOT NULL,
    rollout    TEXT   NOT NULL,
    salt       TEXT   NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE route_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

INSERT INTO route_changes (name, version) VALUES ('route', 0);
