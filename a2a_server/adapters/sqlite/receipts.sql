-- name: recall
SELECT key, fingerprint, task_id, expires_ms, reply FROM receipts
WHERE scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?) AND key = ? AND expires_ms > ?

-- name: leave
INSERT INTO receipts (scope, key, fingerprint, task_id, expires_ms, reply) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, task_id = excluded.task_id,
    expires_ms = excluded.expires_ms, reply = excluded.reply

-- name: answer
UPDATE receipts SET reply = ?
WHERE scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?) AND key = ? AND reply = x''
