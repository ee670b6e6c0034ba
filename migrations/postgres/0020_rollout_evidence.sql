-- +goose Up
-- What the latest verdict of a running step rests on, replaced at every look; what a step was left on is kept in rollout_evidence.
ALTER TABLE rollout_rollouts ADD COLUMN evidence TEXT NOT NULL DEFAULT '';
-- Why the system made a transition, as a code with its figures; '' where a person gave the reason.
ALTER TABLE rollout_transitions ADD COLUMN cause TEXT NOT NULL DEFAULT '';
