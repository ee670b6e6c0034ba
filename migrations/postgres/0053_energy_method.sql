-- +goose Up
-- How the energy of a day's usage is known: measured, modelled, declared, mixed; '' where nothing is. Until now it was declared.
ALTER TABLE billing_usage_daily ADD COLUMN energy_method TEXT NOT NULL DEFAULT '';
UPDATE billing_usage_daily SET energy_method = 'declared' WHERE energy > 0;
