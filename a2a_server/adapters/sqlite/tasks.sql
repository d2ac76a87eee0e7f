-- name: writable
-- What a writer must know about a task: one seek each in tasks, leases, artifacts and the indexes of events and configs.
SELECT tasks.key, coalesce(leases.epoch, 1), max(tasks.shelved, coalesce(artifacts.number, 0)),
       max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)),
       EXISTS (SELECT 1 FROM configs WHERE task = tasks.key)
FROM tasks LEFT JOIN leases ON leases.task = tasks.key LEFT JOIN artifacts ON artifacts.task = tasks.key
WHERE tasks.id = ? AND tasks.scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)

-- name: create
-- Nothing happens when the id is taken, by whomever, or when the scope has no number yet.
INSERT OR IGNORE INTO tasks (scope, id, context_id, state, status_ms, number, shelved, head, log_bytes)
VALUES ((SELECT key FROM scopes WHERE tenant = ? AND owner = ?), ?, ?, ?, ?, ?, ?, ?, ?)

-- name: head
-- The entries since this row was written last are in the log by now.
UPDATE tasks SET context_id = ?, state = ?, status_ms = ?, number = ?, shelved = ?, head = ?, log_bytes = log_bytes
    + coalesce((SELECT sum(length(wire)) FROM events WHERE task = tasks.key AND number > tasks.number), 0)
WHERE key = ?

-- name: append
INSERT INTO events (task, number, wire) VALUES (?, ?, ?)

-- name: artifacts
INSERT INTO artifacts (task, number, wire) VALUES (?, ?, ?)
ON CONFLICT (task) DO UPDATE SET number = excluded.number, wire = excluded.wire

-- name: agent_state
INSERT INTO agent_states (task, wire) VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET wire = excluded.wire

-- name: remember
INSERT INTO context_states (scope, context_id, name, value, updated_ms)
SELECT scope, context_id, ?, ?, status_ms FROM tasks WHERE key = ?
ON CONFLICT (scope, context_id, name) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms

-- name: forget
DELETE FROM context_states
WHERE (scope, context_id) = (SELECT scope, context_id FROM tasks WHERE key = ?) AND name = ?

-- name: context
SELECT context_id FROM tasks WHERE key = ?

-- name: load
SELECT tasks.key, tasks.head, coalesce(leases.epoch, 1),
       max(tasks.shelved, coalesce(artifacts.number, 0)),
       max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)),
       coalesce(artifacts.wire, x''), coalesce(agent_states.wire, x''), tasks.log_bytes
       + coalesce((SELECT sum(length(wire)) FROM events WHERE task = tasks.key AND number > tasks.number), 0)
FROM tasks LEFT JOIN leases ON leases.task = tasks.key
LEFT JOIN artifacts ON artifacts.task = tasks.key LEFT JOIN agent_states ON agent_states.task = tasks.key
WHERE tasks.id = ? AND tasks.scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)

-- name: tail
-- The first byte of an event tells its kind, sealed or not.
SELECT number, wire FROM events WHERE task = ? AND number > ? AND number <= ? AND substr(wire, 1, 1) = ? ORDER BY number

-- name: entries
SELECT number, wire FROM events WHERE task = (SELECT key FROM tasks WHERE id = ?) AND number > ?
ORDER BY number LIMIT ?

-- name: has_context
SELECT 1 FROM tasks INDEXED BY tasks_by_context
WHERE scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?) AND context_id = ? LIMIT 1

-- name: secret
SELECT value FROM secrets WHERE name = 'cursor'

-- name: secret_add
INSERT INTO secrets VALUES ('cursor', randomblob(32)) ON CONFLICT DO NOTHING
