-- name: first
-- What seals what is written now.
SELECT id, turn FROM a2ad.content_keys ORDER BY turn DESC LIMIT 1

-- name: others
-- Living servers that do not seal with this key, or do not say.
SELECT id, seals_with FROM a2ad.sessions WHERE until > clock_timestamp() AND seals_with IS DISTINCT FROM $1 ORDER BY id

-- name: alive
SELECT count(*) FROM a2ad.sessions WHERE until > clock_timestamp()

-- name: forget_others
-- Unless a server has begun to seal with another key meanwhile.
DELETE FROM a2ad.content_keys WHERE id <> $1 AND (SELECT max(turn) FROM a2ad.content_keys) = $2

-- name: grow
INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes) VALUES ($1, $2, $3, $4, 0, $5, 0, $6)
ON CONFLICT (slot, scope, state, part) DO UPDATE SET bytes = totals.bytes + excluded.bytes
