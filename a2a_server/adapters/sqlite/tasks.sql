-- name: writable
-- What a writer must know about a task: one seek each in tasks, leases, artifacts and the indexes of events and configs.
SELECT tasks.key, coalesce(leases.epoch, 1), max(tasks.shelved, coalesce(artifacts.number, 0)),
       max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)), tasks.state,
       EXISTS (SELECT 1 FROM configs WHERE task = tasks.key)
FROM tasks LEFT JOIN leases ON leases.task = tasks.key LEFT JOIN artifacts ON artifacts.task = tasks.key
WHERE tasks.id = ? AND tasks.scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)

-- name: create
-- Nothing happens when the id is taken, by whomever, or when the scope has no number yet.
INSERT OR IGNORE INTO tasks (scope, id, context_id, state, status_ms, number, shelved, head)
VALUES ((SELECT key FROM scopes WHERE tenant = ? AND owner = ?), ?, ?, ?, ?, ?, ?, ?)

-- name: enter
-- One task more in a state.
INSERT INTO totals (scope, state, tasks) VALUES ((SELECT scope FROM tasks WHERE key = ?), ?, 1)
ON CONFLICT (scope, state) DO UPDATE SET tasks = tasks + 1

-- name: leave
-- And one fewer.
UPDATE totals SET tasks = tasks - 1 WHERE scope = (SELECT scope FROM tasks WHERE key = ?) AND state = ?

-- name: head
UPDATE tasks SET context_id = ?, state = ?, status_ms = ?, number = ?, shelved = ?, head = ? WHERE key = ?

-- name: append
INSERT INTO events (task, number, wire) VALUES (?, ?, ?)

-- name: artifacts
INSERT INTO artifacts (task, number, wire) VALUES (?, ?, ?)
ON CONFLICT (task) DO UPDATE SET number = excluded.number, wire = excluded.wire

-- name: agent_state
INSERT INTO agent_states (task, wire) VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET wire = excluded.wire

-- name: load
SELECT tasks.key, tasks.head, coalesce(leases.epoch, 1),
       max(tasks.shelved, coalesce(artifacts.number, 0)),
       max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)),
       coalesce(artifacts.wire, x''), coalesce(agent_states.wire, x'')
FROM tasks LEFT JOIN leases ON leases.task = tasks.key
LEFT JOIN artifacts ON artifacts.task = tasks.key LEFT JOIN agent_states ON agent_states.task = tasks.key
WHERE tasks.id = ? AND tasks.scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)

-- name: tail
-- The first byte of an event tells its kind.
SELECT wire FROM events WHERE task = ? AND number > ? AND number <= ? AND substr(wire, 1, 1) = ? ORDER BY number

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
