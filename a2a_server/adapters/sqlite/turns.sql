-- name: create
-- Not for a task that is over when it is created, as most are: nobody will claim it. Without a row its epoch is 1.
INSERT INTO leases (task, epoch, replica, turns) VALUES (?, ?, ?, ?)

-- name: lease
INSERT INTO leases (epoch, replica, task) VALUES (?, ?, ?)
ON CONFLICT (task) DO UPDATE SET epoch = excluded.epoch, replica = excluded.replica

-- name: unclaimed
-- The row in which turns are counted.
INSERT INTO leases (task, epoch) VALUES (?, ?) ON CONFLICT (task) DO NOTHING

-- name: begin
INSERT INTO turns (task, number, request) VALUES (?, ?, ?) ON CONFLICT (task, number) DO UPDATE SET request = excluded.request

-- name: end
DELETE FROM turns WHERE task = ? AND number = ?

-- name: recount
UPDATE leases SET turns = (SELECT count(*) FROM turns WHERE task = :task) WHERE task = :task

-- name: left
-- Nobody else has the file open, so every other session is over. The index has all tasks with turns.
SELECT leases.task, leases.epoch, tasks.id, scopes.tenant, scopes.owner
FROM leases INDEXED BY leases_by_end CROSS JOIN tasks ON tasks.key = leases.task
CROSS JOIN scopes ON scopes.key = tasks.scope
WHERE leases.turns > 0 AND leases.until_ms >= 0 AND leases.replica <> ? ORDER BY leases.until_ms LIMIT ?

-- name: turns
SELECT number, request FROM turns WHERE task = ? ORDER BY number
