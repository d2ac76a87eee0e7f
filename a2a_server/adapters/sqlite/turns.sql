-- name: create
-- Not for a task that is over when it is created, as most are: nobody will claim it. Without a row its epoch is 1.
INSERT INTO leases (task, epoch, replica, until_ms, turns) VALUES (?, ?, ?, ?, ?)

-- name: lease
INSERT INTO leases (epoch, replica, until_ms, task) VALUES (?, ?, ?, ?)
ON CONFLICT (task) DO UPDATE SET epoch = excluded.epoch, replica = excluded.replica, until_ms = excluded.until_ms

-- name: unclaimed
-- The row in which turns are counted.
INSERT INTO leases (task, epoch) VALUES (?, ?) ON CONFLICT (task) DO NOTHING

-- name: begin
INSERT INTO turns (task, number, request) VALUES (?, ?, ?) ON CONFLICT (task, number) DO UPDATE SET request = excluded.request

-- name: end
DELETE FROM turns WHERE task = ? AND number = ?

-- name: recount
-- With the last turn goes the wish to cancel it.
UPDATE leases SET turns = live.turns, cancel = CASE WHEN live.turns > 0 THEN cancel END
FROM (SELECT count(*) AS turns FROM turns WHERE task = :task) AS live WHERE task = :task

-- name: lapsed
SELECT leases.task, leases.epoch, tasks.id, scopes.tenant, scopes.owner
FROM leases INDEXED BY leases_by_end CROSS JOIN tasks ON tasks.key = leases.task
CROSS JOIN scopes ON scopes.key = tasks.scope
WHERE leases.turns > 0 AND leases.until_ms < ? ORDER BY leases.until_ms LIMIT ?

-- name: turns
SELECT number, request FROM turns WHERE task = ? ORDER BY number

-- name: held
SELECT tasks.key, coalesce(leases.epoch, 1), leases.cancel
FROM tasks LEFT JOIN leases ON leases.task = tasks.key WHERE tasks.id = ?

-- name: extend
UPDATE leases SET replica = ?, until_ms = ? WHERE task = ?

-- name: cancel
UPDATE leases SET cancel = ? WHERE turns > 0 AND task =
    (SELECT key FROM tasks WHERE id = ? AND scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?))
