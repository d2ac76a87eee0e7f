-- name: make
INSERT INTO api_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(change), 0) + 1 FROM api_keys))

-- name: after
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM api_keys WHERE change > ? ORDER BY change LIMIT ?

-- name: used
UPDATE api_keys SET used_ms = max(coalesce(used_ms, 0), ?) WHERE id = ?

-- name: revoke
-- A second time changes nothing.
UPDATE api_keys SET revoked_ms = ?, change = (SELECT max(change) + 1 FROM api_keys) WHERE id = ? AND revoked_ms IS NULL

-- name: listed
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM api_keys WHERE ? IN (owner, '') ORDER BY made_ms DESC, id LIMIT ?

-- name: one
SELECT change, id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms
FROM api_keys WHERE id = ?
