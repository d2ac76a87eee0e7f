-- Three orders for three kinds of filter. Every query names its index: a planner that found another one would be slow
-- without anybody noticing. The bounds are always there; without a filter they are the ends of time.

-- name: page
SELECT key, id, head FROM tasks INDEXED BY tasks_by_status
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner)
  AND status_ms >= :since_ms AND (status_ms, id) < (:after_ms, :after_id)
ORDER BY status_ms DESC, id DESC LIMIT :limit

-- name: page_of_state
SELECT key, id, head FROM tasks INDEXED BY tasks_by_state
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND state = :state
  AND status_ms >= :since_ms AND (status_ms, id) < (:after_ms, :after_id)
ORDER BY status_ms DESC, id DESC LIMIT :limit

-- name: page_of_context
SELECT key, id, head FROM tasks INDEXED BY tasks_by_context
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND context_id = :context_id
  AND :state IN (0, state) AND status_ms >= :since_ms AND (status_ms, id) < (:after_ms, :after_id)
ORDER BY status_ms DESC, id DESC LIMIT :limit

-- name: newest_of_context
SELECT key, id, head, status_ms FROM tasks INDEXED BY tasks_by_context
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND context_id = :context_id
  AND id <> :without
ORDER BY status_ms DESC, id DESC LIMIT :limit

-- name: state_of_context
SELECT name, value FROM context_states
WHERE scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?) AND context_id = ?

-- name: total
SELECT coalesce(sum(tasks), 0) FROM totals
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND :state IN (0, state)

-- name: count
SELECT count(*) FROM tasks INDEXED BY tasks_by_status
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND status_ms >= :since_ms

-- name: count_of_state
SELECT count(*) FROM tasks INDEXED BY tasks_by_state
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND state = :state
  AND status_ms >= :since_ms

-- name: count_of_context
SELECT count(*) FROM tasks INDEXED BY tasks_by_context
WHERE scope = (SELECT key FROM scopes WHERE tenant = :tenant AND owner = :owner) AND context_id = :context_id
  AND :state IN (0, state) AND status_ms >= :since_ms

-- name: shelf
-- What the artifacts of a listed task are made of, how many bytes that is, and the first of it, unless it is long: then
-- it is NULL, because there may be no room for it. SQLite knows lengths without reading.
SELECT max(tasks.shelved, coalesce(artifacts.number, 0)),
       max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)),
       coalesce(length(artifacts.wire), 0),
       CASE WHEN artifacts.wire IS NULL THEN x'' WHEN length(artifacts.wire) < 65536 THEN artifacts.wire END
FROM tasks LEFT JOIN artifacts ON artifacts.task = tasks.key WHERE tasks.key = ?

-- name: tail_size
SELECT coalesce(sum(length(wire)), 0) FROM events WHERE task = ? AND number > ?

-- name: artifacts
SELECT wire FROM artifacts WHERE task = ?

-- name: waiting_since
-- CROSS JOIN keeps this order of tables: the oldest tasks first, until enough are found. The states are the index's.
SELECT scopes.tenant, scopes.owner, tasks.id
FROM tasks INDEXED BY tasks_by_age CROSS JOIN leases ON leases.task = tasks.key AND leases.turns = 0
CROSS JOIN scopes ON scopes.key = tasks.scope
WHERE tasks.state = ? AND tasks.state IN (6, 8) AND tasks.status_ms < ?
ORDER BY tasks.status_ms, tasks.id LIMIT ?
