-- name: grow
-- Count that push configs of a task, or values of its context, have become longer.
INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
SELECT slot, scope, tenant, owner, 0, $3::smallint, 0, $4::bigint FROM a2ad.tasks WHERE slot = $1 AND task = $2
ON CONFLICT (slot, scope, state, part) DO UPDATE SET bytes = totals.bytes + excluded.bytes

-- name: held
-- In all tenants.
SELECT coalesce(sum(tasks), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM a2ad.totals
WHERE left(owner, 500) = left($1, 500) AND owner = $1

-- name: held_in_tenant
SELECT coalesce(sum(tasks), 0)::bigint, coalesce(sum(bytes), 0)::bigint FROM a2ad.totals WHERE slot = $1 AND scope = $2
