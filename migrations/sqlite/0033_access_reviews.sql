-- +goose Up
-- Somebody confirms, one by one, that the accounts and keys of a tenant still need what they hold; what nobody has confirmed by the due
-- date ends.
CREATE TABLE access_reviews (
    id           TEXT   NOT NULL PRIMARY KEY,
    tenant       TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    owner        TEXT   NOT NULL, -- who decides
    owner_name   TEXT   NOT NULL,
    started_by   TEXT   NOT NULL, -- who decides about the owner's own
    started_name TEXT   NOT NULL,
    started      BIGINT NOT NULL,
    due          BIGINT NOT NULL,
    cancelled_by TEXT   NOT NULL,
    cancellation TEXT   NOT NULL, -- why
    ended        BIGINT NOT NULL  -- 0: open
);
CREATE INDEX access_reviews_tenant ON access_reviews (tenant, started);
CREATE INDEX access_reviews_open ON access_reviews (ended, due);

CREATE TABLE access_review_items (
    review       TEXT   NOT NULL,
    kind         TEXT   NOT NULL, -- user or key
    item         TEXT   NOT NULL,
    name         TEXT   NOT NULL,
    holds        TEXT   NOT NULL, -- JSON array: what it held when it was last shown
    decision     TEXT   NOT NULL, -- '', confirmed, ended, lapsed or cancelled
    decided_by   TEXT   NOT NULL,
    decided_name TEXT   NOT NULL,
    decided      BIGINT NOT NULL,
    reason       TEXT   NOT NULL,
    claimed      BIGINT NOT NULL, -- since when a replica has been ending it
    recorded     BIGINT NOT NULL, -- when the audit log was told that it ends without a request
    done         BIGINT NOT NULL, -- when it was ended, or when that was found impossible
    failure      TEXT   NOT NULL, -- the code of why it could not be ended
    PRIMARY KEY (review, kind, item)
);
