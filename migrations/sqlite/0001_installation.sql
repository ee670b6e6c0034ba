-- +goose Up
CREATE TABLE installation_settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
