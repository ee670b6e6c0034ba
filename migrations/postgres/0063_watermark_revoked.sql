-- +goose Up
-- Since when a key that leaked proves nothing; 0: it was not revoked.
ALTER TABLE watermark_keys ADD COLUMN revoked_at BIGINT NOT NULL DEFAULT 0;
-- Binaries of before would go on taking its mark for a proof.
UPDATE installation_compatibility SET floor = 63;
