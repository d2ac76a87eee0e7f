-- name: rates
-- Buckets that are not full. What a crash loses of them is little, so nothing of it goes through the write-ahead log.
CREATE UNLOGGED TABLE IF NOT EXISTS a2ad.rates (
    full_at timestamptz NOT NULL,
    slot    smallint NOT NULL,
    bucket  uuid NOT NULL,
    PRIMARY KEY (slot, bucket)
) WITH (fillfactor = 50)
