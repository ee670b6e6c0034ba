-- +goose Up
-- How far each destination of security monitoring has come: the place in the log of the first record that it has not confirmed.
CREATE TABLE audit_siem (
    name         TEXT   NOT NULL PRIMARY KEY,
    next         BIGINT NOT NULL,
    skipped      BIGINT NOT NULL, -- records that were removed before they could be sent
    confirmed    BIGINT NOT NULL, -- when the newest batch was; 0: none yet
    failed_since BIGINT NOT NULL, -- 0: the newest attempt did not fail
    failure      TEXT   NOT NULL
);
INSERT INTO audit_lease (name, holder, expires) VALUES ('siem', '', 0);
