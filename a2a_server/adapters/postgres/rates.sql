-- name: spend
-- In one order, so that no two servers wait for each other.
INSERT INTO a2ad.rates AS known (slot, bucket, full_at)
SELECT slot, bucket, now() + make_interval(secs => seconds)
FROM unnest($1::smallint[], $2::uuid[], $3::float8[]) AS spent (slot, bucket, seconds) ORDER BY slot, bucket
ON CONFLICT (slot, bucket) DO UPDATE
SET full_at = least(greatest(known.full_at, now()) + (excluded.full_at - now()), now() + interval '1000 years')
RETURNING bucket, extract(epoch FROM full_at - now())::float8 AS seconds

-- name: forget_full
DELETE FROM a2ad.rates WHERE (slot, bucket) IN (
    SELECT slot, bucket FROM a2ad.rates WHERE slot BETWEEN $1 AND $2 AND full_at < now() FOR UPDATE SKIP LOCKED)
