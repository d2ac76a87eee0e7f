-- name: size
SELECT scope, state, bytes FROM task_sizes WHERE key = ?

-- name: enter
-- One task more in a state.
INSERT INTO totals (scope, state, tasks, bytes) SELECT scope, state, 1, bytes FROM task_sizes WHERE key = ?
ON CONFLICT (scope, state) DO UPDATE SET tasks = tasks + 1, bytes = bytes + excluded.bytes

-- name: leave
-- And one fewer.
UPDATE totals SET tasks = tasks - 1, bytes = bytes - ? WHERE scope = ? AND state = ?

-- name: grow
UPDATE totals SET bytes = bytes + ? WHERE scope = ? AND state = ?

-- name: size_of_context
SELECT scope, coalesce((SELECT sum(length(value)) FROM context_states
                        WHERE scope = tasks.scope AND context_id = tasks.context_id), 0)
FROM tasks WHERE key = ?

-- name: grow_contexts
INSERT INTO totals (scope, state, tasks, bytes) VALUES (?, 0, 0, ?)
ON CONFLICT (scope, state) DO UPDATE SET bytes = bytes + excluded.bytes

-- name: held
-- In all tenants. The number of rows tells whether the limit was reached.
SELECT coalesce(sum(tasks), 0), coalesce(sum(bytes), 0), count(*) FROM (
    SELECT totals.tasks, totals.bytes FROM scopes INDEXED BY scopes_by_owner
    CROSS JOIN totals ON totals.scope = scopes.key WHERE scopes.owner = ? LIMIT ?)

-- name: held_in_tenant
SELECT coalesce(sum(tasks), 0), coalesce(sum(bytes), 0) FROM totals
WHERE scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)
