-- +goose Up
-- Who holds the administrators' duties: 'merged' in one platform administrator, or 'separated'. One row; there is no way back to 'merged'.
CREATE TABLE identity_duties (
    id         BIGINT NOT NULL PRIMARY KEY,
    state      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT   NOT NULL
);
INSERT INTO identity_duties (id, state, changed_at, changed_by) VALUES (1, 'merged', 0, '');

-- Who gave an account its roles, and when: whoever did is no second person to it for a while.
CREATE TABLE identity_grants (
    user_id    TEXT   NOT NULL,
    granted_by TEXT   NOT NULL,
    granted_at BIGINT NOT NULL
);
CREATE INDEX identity_grants_user ON identity_grants (user_id, granted_by);

-- What an approval lets its asker do: a management call, in the approver's words and as JSON. '' of reveals and erasures.
ALTER TABLE reveal_approvals ADD COLUMN act TEXT NOT NULL DEFAULT '';
ALTER TABLE erasure_approvals ADD COLUMN act TEXT NOT NULL DEFAULT '';
CREATE TABLE act_approvals (
    id             TEXT   NOT NULL PRIMARY KEY,
    tenant         TEXT   NOT NULL,
    digest         TEXT   NOT NULL,
    target         TEXT   NOT NULL,
    purpose        TEXT   NOT NULL,
    counts         TEXT   NOT NULL,
    act            TEXT   NOT NULL,
    asked_by       TEXT   NOT NULL,
    asked_name     TEXT   NOT NULL,
    created        BIGINT NOT NULL,
    expires        BIGINT NOT NULL,
    approved_by    TEXT   NOT NULL,
    approved_name  TEXT   NOT NULL,
    approved       BIGINT NOT NULL,
    used           BIGINT NOT NULL,
    declined       BIGINT NOT NULL,
    declined_by    TEXT   NOT NULL,
    declined_name  TEXT   NOT NULL,
    decline_reason TEXT   NOT NULL
);
CREATE INDEX act_approvals_tenant ON act_approvals (tenant, created);
