-- Finished tasks are found by scope and state, so that no further index has to be written by every send.

-- name: next_lane
SELECT scope, state FROM totals
WHERE (scope, state) > (?, ?) AND tasks > 0 AND state IN (3, 4, 5, 7) ORDER BY scope, state LIMIT 1

-- name: finished
-- The oldest of a lane, and whether each may be removed now.
SELECT key, status_ms, id, NOT EXISTS (SELECT 1 FROM leases WHERE task = tasks.key AND turns > 0)
       AND NOT (:owed AND EXISTS (SELECT 1 FROM configs WHERE task = tasks.key AND due_ms IS NOT NULL))
       AND (:whole OR EXISTS (SELECT 1 FROM events WHERE task = tasks.key))
FROM tasks INDEXED BY tasks_by_state
WHERE scope = :scope AND state = :state AND (status_ms, id) > (:after_ms, :after_id) AND status_ms < :before_ms
ORDER BY status_ms, id LIMIT :limit

-- name: first_owing
-- Since when the oldest of the tasks is finished that may still have something to send.
SELECT min(tasks.status_ms) FROM configs INDEXED BY configs_by_due CROSS JOIN tasks ON tasks.key = configs.task
WHERE configs.due_ms IS NOT NULL

-- name: removing
-- Tasks that are gone for everybody, and of which something is left.
SELECT key FROM tasks INDEXED BY tasks_by_state WHERE scope = 0 LIMIT ?

-- name: parked
SELECT key FROM configs INDEXED BY configs_by_parking WHERE parked_ms IS NOT NULL AND parked_ms < ? LIMIT ?

-- name: expired
SELECT scope, key FROM receipts INDEXED BY receipts_by_end WHERE expires_ms <= ? LIMIT ?

-- name: unchanged
SELECT rowid, updated_ms FROM context_states INDEXED BY context_states_by_age
WHERE (updated_ms, rowid) > (?, ?) AND updated_ms < ? ORDER BY updated_ms, rowid LIMIT ?

-- name: value
SELECT scope, length(value) FROM context_states WHERE rowid = ?

-- name: forget_value
DELETE FROM context_states WHERE rowid = :row AND updated_ms < :before_ms AND NOT EXISTS (
    SELECT 1 FROM tasks INDEXED BY tasks_by_context
    WHERE tasks.scope = context_states.scope AND tasks.context_id = context_states.context_id
      AND (tasks.status_ms >= :before_ms OR tasks.state NOT IN (3, 4, 5, 7)))

-- name: forget_receipt
DELETE FROM receipts WHERE scope = ? AND key = ? AND expires_ms <= ?

-- name: weight
-- About how many bytes it takes to remove it; of a long log only the first part is counted.
SELECT coalesce((SELECT length(wire) FROM artifacts WHERE task = :task), 0)
     + coalesce((SELECT length(wire) FROM agent_states WHERE task = :task), 0)
     + (SELECT total(size) FROM (SELECT length(wire) + 500 AS size FROM events WHERE task = :task LIMIT 600))
     + 500 * (SELECT count(*) FROM (SELECT 1 FROM debts WHERE config IN (SELECT key FROM configs WHERE task = :task) LIMIT 600))

-- name: known
SELECT id, scope, state, status_ms, coalesce((SELECT turns FROM leases WHERE task = key), 0),
       EXISTS (SELECT 1 FROM configs WHERE task = tasks.key AND due_ms IS NOT NULL)
FROM tasks WHERE key = ?

-- name: shelf
SELECT shelved, number, coalesce((SELECT wire FROM artifacts WHERE task = key), x''),
       coalesce((SELECT number FROM artifacts WHERE task = key), 0) FROM tasks WHERE key = ?

-- name: shelve
INSERT INTO artifacts (task, number, wire) VALUES (?, ?, ?)
ON CONFLICT (task) DO UPDATE SET number = excluded.number, wire = excluded.wire

-- name: first_events
SELECT number, length(wire) FROM events WHERE task = ? ORDER BY number LIMIT ?

-- name: cut_log
DELETE FROM events WHERE task = ? AND number <= ?

-- name: empty_log
UPDATE tasks SET log_bytes = 0 WHERE key = ? AND log_bytes > 0

-- name: configs
SELECT key FROM configs WHERE task = ?

-- name: cut_debts
DELETE FROM debts WHERE config = :config
AND number <= (SELECT max(number) FROM (SELECT number FROM debts WHERE config = :config ORDER BY number LIMIT :limit))

-- name: drop_config
DELETE FROM configs WHERE key = ?

-- name: parked_of
SELECT task FROM configs WHERE key = ? AND parked_ms < ?

-- name: drop_receipts
DELETE FROM receipts WHERE task_id = ?

-- name: silence
-- Nobody is told any more.
UPDATE configs SET due_ms = NULL, parked_ms = NULL, claimed_until_ms = NULL, over = 1 WHERE task = ?

-- name: drop_lease
DELETE FROM leases WHERE task = ?

-- name: drop_turns
DELETE FROM turns WHERE task = ?

-- name: drop_artifacts
DELETE FROM artifacts WHERE task = ?

-- name: drop_state
DELETE FROM agent_states WHERE task = ?

-- name: drop_task
DELETE FROM tasks WHERE key = ?

-- name: hide
-- No scope has the key 0, and no id of a task begins so: it is gone for everybody, whatever is still left of it.
UPDATE tasks SET scope = 0, id = '~' || key, context_id = '', head = x'' WHERE key = ?
