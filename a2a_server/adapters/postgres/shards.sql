-- name: held
SELECT id, version, slots, home, members, moving FROM a2ad.shard WHERE one

-- name: version
SELECT version FROM a2ad.shard WHERE one

-- name: used
-- Whether anything is stored that belongs to a slot, or soon may be.
SELECT EXISTS (SELECT 1 FROM a2ad.tasks) OR EXISTS (SELECT 1 FROM a2ad.receipts) OR EXISTS (SELECT 1 FROM a2ad.context_states)
    OR EXISTS (SELECT 1 FROM a2ad.sessions WHERE until > clock_timestamp())

-- name: shut
-- Nobody writes a row of a slot until this transaction ends.
LOCK TABLE a2ad.shard IN ACCESS EXCLUSIVE MODE

-- name: join
UPDATE a2ad.shard SET home = $1, slots = $2, members = $3, version = version + 1 WHERE one
