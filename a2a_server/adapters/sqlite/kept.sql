-- What a command is to remove is collected in temporary tables, which are the command's own, and counted there.

-- name: tables
CREATE TEMP TABLE doomed (key INTEGER PRIMARY KEY, live INTEGER NOT NULL);
CREATE TEMP TABLE doomed_logs (key INTEGER PRIMARY KEY);
CREATE TEMP TABLE doomed_configs (key INTEGER PRIMARY KEY);
CREATE TEMP TABLE doomed_receipts (scope INTEGER, key TEXT, PRIMARY KEY (scope, key));
CREATE TEMP TABLE doomed_values (scope INTEGER, context_id TEXT, name TEXT, PRIMARY KEY (scope, context_id, name));
CREATE TEMP TABLE doomed_keys (id TEXT PRIMARY KEY);

-- name: chosen_tasks
INSERT INTO doomed SELECT tasks.key, EXISTS (SELECT 1 FROM leases WHERE task = tasks.key AND turns > 0)
FROM tasks JOIN scopes ON scopes.key = tasks.scope WHERE

-- name: chosen_receipts
-- Of a whole owner or tenant also those of sends that left no task.
INSERT INTO doomed_receipts SELECT scope, key FROM receipts
WHERE CASE WHEN :whole THEN scope IN (SELECT key FROM scopes WHERE (:owner IS NULL OR owner = :owner)
                                                               AND (:tenant IS NULL OR tenant = :tenant))
                            AND task_id NOT IN (SELECT id FROM tasks JOIN doomed USING (key) WHERE live)
      ELSE task_id IN (SELECT id FROM tasks JOIN doomed USING (key) WHERE NOT live) END

-- name: chosen_values
INSERT INTO doomed_values SELECT scope, context_id, name FROM context_states
WHERE scope IN (SELECT key FROM scopes WHERE (:owner IS NULL OR owner = :owner) AND (:tenant IS NULL OR tenant = :tenant))
  AND (:context IS NULL OR context_id = :context)
  AND NOT EXISTS (SELECT 1 FROM tasks JOIN doomed USING (key)
                  WHERE live AND tasks.scope = context_states.scope AND tasks.context_id = context_states.context_id)

-- name: chosen_keys
INSERT INTO doomed_keys SELECT id FROM api_keys
WHERE (:owner IS NULL OR owner = :owner) AND (:tenant IS NULL OR tenant = :tenant)
  AND NOT (owner = '' AND revoked_ms IS NOT NULL)

-- name: old_tasks
INSERT INTO doomed SELECT key, 0 FROM tasks
WHERE state IN (3, 4, 5, 7) AND status_ms < :tasks AND scope <> 0
  AND NOT EXISTS (SELECT 1 FROM leases WHERE task = tasks.key AND turns > 0)
  AND NOT EXISTS (SELECT 1 FROM configs WHERE task = tasks.key AND due_ms IS NOT NULL)

-- name: old_logs
INSERT INTO doomed_logs SELECT key FROM tasks
WHERE state IN (3, 4, 5, 7) AND status_ms < :events AND scope <> 0 AND key NOT IN (SELECT key FROM doomed)
  AND NOT EXISTS (SELECT 1 FROM leases WHERE task = tasks.key AND turns > 0)
  AND NOT EXISTS (SELECT 1 FROM configs WHERE task = tasks.key AND due_ms IS NOT NULL)
  AND EXISTS (SELECT 1 FROM events WHERE task = tasks.key)

-- name: old_configs
INSERT INTO doomed_configs SELECT key FROM configs
WHERE parked_ms < :webhooks AND task NOT IN (SELECT key FROM doomed)

-- name: old_receipts
INSERT INTO doomed_receipts SELECT scope, key FROM receipts
WHERE expires_ms <= :receipts OR task_id IN (SELECT id FROM tasks JOIN doomed USING (key))

-- name: old_values
INSERT INTO doomed_values SELECT scope, context_id, name FROM context_states
WHERE updated_ms < :contexts AND NOT EXISTS (
    SELECT 1 FROM tasks WHERE tasks.scope = context_states.scope AND tasks.context_id = context_states.context_id
    AND (tasks.status_ms >= :contexts OR tasks.state NOT IN (3, 4, 5, 7)) AND key NOT IN (SELECT key FROM doomed))

-- name: all_live_too
UPDATE doomed SET live = 0

-- name: counts
SELECT (SELECT count(*) FROM doomed WHERE NOT live),
       (SELECT count(*) FROM events WHERE task IN (SELECT key FROM doomed WHERE NOT live))
     + (SELECT count(*) FROM events WHERE task IN (SELECT key FROM doomed_logs)),
       (SELECT count(*) FROM configs WHERE task IN (SELECT key FROM doomed WHERE NOT live))
     + (SELECT count(*) FROM doomed_configs),
       (SELECT count(*) FROM configs JOIN debts ON debts.config = configs.key
        WHERE configs.task IN (SELECT key FROM doomed WHERE NOT live))
     + (SELECT count(*) FROM debts WHERE config IN (SELECT key FROM doomed_configs)),
       (SELECT count(*) FROM doomed_receipts),
       (SELECT count(*) FROM doomed_values),
       (SELECT count(*) FROM doomed_keys)

-- name: busy
SELECT count(*) FROM doomed WHERE live



-- name: turns
SELECT turns FROM leases WHERE task = ? AND turns > 0

-- name: drop_receipt
DELETE FROM receipts WHERE (scope, key) = (?, ?)

-- name: size_of_value
SELECT length(value) FROM context_states WHERE (scope, context_id, name) = (?, ?, ?)

-- name: drop_value
DELETE FROM context_states WHERE (scope, context_id, name) = (?, ?, ?) AND updated_ms < ?

-- name: empty_totals
DELETE FROM totals WHERE tasks <= 0 AND bytes <= 0

-- name: empty_scopes
-- Of an owner of whom nothing is left, not even the name is kept.
DELETE FROM scopes WHERE (:owner IS NULL OR owner = :owner) AND (:tenant IS NULL OR tenant = :tenant)
    AND NOT EXISTS (SELECT 1 FROM tasks WHERE scope = scopes.key) AND NOT EXISTS (SELECT 1 FROM receipts WHERE scope = scopes.key)
    AND NOT EXISTS (SELECT 1 FROM context_states WHERE scope = scopes.key) AND NOT EXISTS (SELECT 1 FROM totals WHERE scope = scopes.key)

-- name: empty_key
-- The row stays for servers that know the key: they ask for changes. It does not tell whose it was.
UPDATE api_keys SET revoked_ms = ?, owner = '', tenant = '', name = '', scopes = NULL, used_ms = NULL,
    change = (SELECT max(change) + 1 FROM api_keys)
WHERE id = ?

-- name: usage
SELECT scopes.tenant, scopes.owner, sum(totals.tasks), sum(totals.bytes) FROM totals JOIN scopes ON scopes.key = totals.scope
WHERE :owner IS NULL OR scopes.owner = :owner GROUP BY totals.scope
HAVING sum(totals.tasks) > 0 OR sum(totals.bytes) > 0
ORDER BY sum(totals.bytes) DESC, scopes.owner, scopes.tenant LIMIT :limit
