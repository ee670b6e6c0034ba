-- +goose Up
-- Since when the keys and people of a tenant are refused, by whom and why; 0: they are not.
ALTER TABLE identity_tenants ADD COLUMN suspended_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE identity_tenants ADD COLUMN suspended_by TEXT NOT NULL DEFAULT '';
ALTER TABLE identity_tenants ADD COLUMN suspension TEXT NOT NULL DEFAULT '';
-- Limits of all its callers together; 0: those of the installation.
ALTER TABLE identity_tenants ADD COLUMN requests_per_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE identity_tenants ADD COLUMN tokens_per_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE identity_tenants ADD COLUMN concurrent INTEGER NOT NULL DEFAULT 0;
