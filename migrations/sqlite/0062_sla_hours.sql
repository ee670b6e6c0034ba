-- +goose Up
-- What became of the requests of an hour, by tenant, model and class: counts by five minutes, and latencies by bins.
CREATE TABLE sla_hours (
    hour      BIGINT NOT NULL, -- UTC unix µs of its begin
    tenant    TEXT   NOT NULL,
    model     TEXT   NOT NULL, -- as asked, without a version; '' where no model was chosen
    class     TEXT   NOT NULL,
    counts    BLOB   NOT NULL,
    latencies BLOB   NOT NULL,
    PRIMARY KEY (hour, tenant, model, class)
);

-- When counting began, in unix µs: records of before are not counted.
INSERT INTO installation_settings (name, value) VALUES ('sla_counted_since', CAST(unixepoch('now') * 1000000 AS TEXT));
