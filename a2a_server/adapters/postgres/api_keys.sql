-- name: make
INSERT INTO a2ad.api_keys (id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms, change)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, (SELECT coalesce(max(change), 0) + 1 FROM a2ad.api_keys))

-- name: alone
-- Changes are numbered one after another.
SELECT pg_advisory_xact_lock(27763147, 3)

-- name: after
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM a2ad.api_keys WHERE change > $1 ORDER BY change LIMIT $2

-- name: used
UPDATE a2ad.api_keys SET used_ms = greatest(used_ms, used.ms) FROM unnest($1::text[], $2::bigint[]) AS used (id, ms)
WHERE api_keys.id = used.id

-- name: revoke
-- A second time changes nothing.
UPDATE a2ad.api_keys SET revoked_ms = $2, change = (SELECT max(change) + 1 FROM a2ad.api_keys) WHERE id = $1 AND revoked_ms IS NULL

-- name: listed
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM a2ad.api_keys WHERE $1 IN (owner, '') ORDER BY made_ms DESC, id LIMIT $2

-- name: one
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM a2ad.api_keys WHERE id = $1
