-- +goose Up
-- Of all replicas one watches the states of the whole installation.
INSERT INTO audit_lease (name, holder, expires) VALUES ('alerts', '', 0);
