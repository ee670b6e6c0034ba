-- +goose Up
CREATE TABLE route_instances ( -- instances of pools: registered ones, and what was changed of configured ones, whose spec is empty
    pool          TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    spec          TEXT    NOT NULL, -- JSON
    weight        INTEGER NOT NULL, -- -1: that of the configuration
    zone          TEXT    NOT NULL,
    roles         TEXT    NOT NULL, -- with commas
    cost_per_hour BIGINT  NOT NULL, -- 10^-9 currency units
    power         TEXT    NOT NULL,
    draining      INTEGER NOT NULL,
    created_at    BIGINT  NOT NULL,
    created_by    TEXT    NOT NULL,
    updated_at    BIGINT  NOT NULL,
    PRIMARY KEY (pool, name)
);
INSERT INTO route_changes (name, version) VALUES ('instances', 0);
