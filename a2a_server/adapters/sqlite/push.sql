-- name: put
INSERT INTO configs (task, id, wire, version, schemes) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (task, id) DO UPDATE SET wire = excluded.wire, version = excluded.version, schemes = excluded.schemes

-- name: get
SELECT wire, version, schemes FROM configs WHERE id = ? AND task =
    (SELECT key FROM tasks WHERE id = ? AND scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?))

-- name: configs
SELECT wire, version, schemes FROM configs WHERE task = ? AND id > ? ORDER BY id LIMIT ?

-- name: forgive
DELETE FROM debts WHERE config = (SELECT key FROM configs WHERE task = ? AND id = ?)

-- name: delete
DELETE FROM configs WHERE task = ? AND id = ?

-- name: creditors
SELECT key, due_ms FROM configs WHERE task = ?

-- name: owe
INSERT INTO debts (config, number) VALUES (?, ?)

-- name: due
-- The longest unserved goes first, so that nobody starves when there are more configs than hands.
UPDATE configs SET due_ms = served_ms WHERE key = ?

-- name: claimable
SELECT configs.key, configs.wire, configs.version, configs.schemes, configs.attempts, tasks.id, scopes.tenant, scopes.owner,
       (SELECT min(number) FROM debts WHERE config = configs.key)
FROM configs INDEXED BY configs_by_due CROSS JOIN tasks ON tasks.key = configs.task
CROSS JOIN scopes ON scopes.key = tasks.scope
WHERE configs.due_ms <= ? ORDER BY configs.due_ms LIMIT ?

-- name: claim
UPDATE configs SET due_ms = :until_ms, claimed_until_ms = :until_ms, served_ms = :now_ms, attempts = attempts + 1
WHERE key = :config

-- name: claimed
SELECT key, (SELECT min(number) FROM debts WHERE config = configs.key) FROM configs
WHERE task = (SELECT key FROM tasks WHERE id = ?) AND id = ? AND claimed_until_ms = ?

-- name: put_off
UPDATE configs SET due_ms = ?, claimed_until_ms = NULL WHERE key = ?

-- name: pay
DELETE FROM debts WHERE config = ? AND number = ?

-- name: paid
UPDATE configs SET claimed_until_ms = NULL, attempts = 0,
    due_ms = CASE WHEN EXISTS (SELECT 1 FROM debts WHERE config = configs.key) THEN served_ms END
WHERE key = ?
