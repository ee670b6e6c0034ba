-- +goose Up
CREATE TABLE watermark_changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);
INSERT INTO watermark_changes (name, version) VALUES ('watermark', 1);
CREATE TABLE watermark_keys ( -- secrets by which texts are marked, and found again after they were replaced
    id         TEXT   NOT NULL PRIMARY KEY, -- tells nothing of the secret
    tenant     TEXT   NOT NULL,
    number     BIGINT NOT NULL, -- 1, 2, …: the epoch
    params     TEXT   NOT NULL, -- JSON: scheme, sub_keys, context, gamma, delta
    suite      TEXT   NOT NULL,
    epoch      BIGINT NOT NULL, -- of the wrapping key
    wrapped    BLOB   NOT NULL,
    created_at BIGINT NOT NULL,
    retired_at BIGINT NOT NULL, -- 0: it marks
    UNIQUE (tenant, number)
);
-- A rotation of the wrapping keys that is under way takes in these keys, and the kinds that migrations 42, 43 and 46 brought without saying so; its grace
-- begins anew.
INSERT INTO wrapping_progress (kind, position, total, done, unreadable, complete)
    SELECT k.kind, '', k.total, 0, 0, 0
    FROM (SELECT 'files' AS kind, (SELECT COUNT(*) FROM file_blobs AS t, wrapping_rotation AS r WHERE t.epoch < r.active) AS total
          UNION ALL SELECT 'batches', (SELECT COUNT(*) FROM batch_batches AS t, wrapping_rotation AS r WHERE t.epoch < r.active)
          UNION ALL SELECT 'replies', (SELECT COUNT(*) FROM reply_replies AS t, wrapping_rotation AS r WHERE t.epoch < r.active)
          UNION ALL SELECT 'signing_keys', (SELECT COUNT(*) FROM signature_seeds AS t, wrapping_rotation AS r WHERE t.epoch < r.active)
          UNION ALL SELECT 'watermark_keys', 0) AS k
    WHERE EXISTS (SELECT 1 FROM wrapping_rotation WHERE begun <> 0 AND finished = 0)
      AND NOT EXISTS (SELECT 1 FROM wrapping_progress AS p WHERE p.kind = k.kind);
UPDATE wrapping_rotation SET emptied = 0 WHERE begun <> 0 AND finished = 0;
-- Binaries of before could not read a policy that wants watermarks, and would destroy a wrapping key that these keys still need.
UPDATE installation_compatibility SET floor = 47;
