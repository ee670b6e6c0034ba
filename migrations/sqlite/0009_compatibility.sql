-- +goose Up
-- One row: the oldest schema version whose binaries still run on this schema. A migration that breaks older binaries raises it in
-- its own file: UPDATE installation_compatibility SET floor = <latest version of the release before>;
CREATE TABLE installation_compatibility (floor BIGINT NOT NULL);
INSERT INTO installation_compatibility (floor) VALUES (8);
