-- What a command is to remove, whoever it belongs to. Where a filter is NULL, everything passes it.

-- name: chosen_tasks
-- One is live while it has turns of a session that is not over.
SELECT tasks.slot, tasks.task, number, busy AND EXISTS (
    SELECT 1 FROM a2ad.sessions WHERE id = fences.session AND until > clock_timestamp()) AS live
FROM a2ad.tasks JOIN a2ad.fences USING (slot, task)
WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR tenant = $2)
  AND ($3::text IS NULL OR tasks.task = $3) AND ($4::text IS NULL OR context_id = $4)
ORDER BY tasks.slot, tasks.task

-- name: old_tasks
SELECT tasks.slot, tasks.task, number, false AS live FROM a2ad.tasks JOIN a2ad.fences USING (slot, task)
WHERE state IN (3, 4, 5, 7) AND status_ms < $1 AND NOT busy
  AND NOT EXISTS (SELECT 1 FROM a2ad.configs WHERE slot = tasks.slot AND task = tasks.task AND due_ms IS NOT NULL)

-- name: old_logs
-- The entries of tasks that stay.
SELECT count(*) FROM a2ad.events JOIN a2ad.tasks USING (slot, task) JOIN a2ad.fences USING (slot, task)
WHERE state IN (3, 4, 5, 7) AND status_ms < $1 AND NOT status_ms < $2 AND NOT busy
  AND NOT EXISTS (SELECT 1 FROM a2ad.configs WHERE slot = tasks.slot AND task = tasks.task AND due_ms IS NOT NULL)

-- name: theirs
-- What belongs to tasks: entries, configs, webhooks, receipts.
WITH doomed AS (SELECT * FROM unnest($1::smallint[], $2::text[]) AS doomed (slot, task))
SELECT (SELECT count(*) FROM a2ad.events JOIN doomed USING (slot, task)),
    (SELECT count(*) FROM a2ad.configs JOIN doomed USING (slot, task)),
    (SELECT count(*) FROM a2ad.debts JOIN doomed USING (slot, task)),
    (SELECT count(*) FROM a2ad.receipts JOIN doomed USING (slot, task))

-- name: old_configs
-- Parked ones of tasks that stay, and what they are owed.
SELECT count(*), coalesce(sum(pending), 0)::bigint FROM a2ad.configs WHERE parked_ms < $1
  AND (slot, task) NOT IN (SELECT * FROM unnest($2::smallint[], $3::text[]))

-- name: old_receipts
SELECT count(*) FROM a2ad.receipts WHERE expires_ms <= $1
  AND (slot, task) NOT IN (SELECT * FROM unnest($2::smallint[], $3::text[]))

-- name: old_values
SELECT count(*) FROM a2ad.context_states WHERE updated_ms < $1 AND NOT EXISTS (
    SELECT 1 FROM a2ad.tasks WHERE tasks.slot = context_states.slot AND tasks.scope = context_states.scope
    AND tasks.context_id = context_states.context_id AND (status_ms >= $1 OR state NOT IN (3, 4, 5, 7))
    AND (slot, task) NOT IN (SELECT * FROM unnest($2::smallint[], $3::text[])))

-- name: chosen_receipts
-- Of a whole owner or tenant also those of sends that left no task.
SELECT slot, scope, key FROM a2ad.receipts
WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR tenant = $2)
  AND (slot, task) NOT IN (SELECT * FROM unnest($3::smallint[], $4::text[]))

-- name: chosen_values
SELECT slot, scope, context_id, name FROM a2ad.context_states
WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR tenant = $2) AND ($3::text IS NULL OR context_id = $3)
  AND NOT EXISTS (
    SELECT 1 FROM a2ad.tasks JOIN unnest($4::smallint[], $5::text[]) AS live (slot, task) USING (slot, task)
    WHERE tasks.scope = context_states.scope AND tasks.context_id = context_states.context_id)

-- name: chosen_keys
SELECT id FROM a2ad.api_keys
WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR tenant = $2) AND NOT (owner = '' AND revoked_ms IS NOT NULL)

-- name: drop_receipts
DELETE FROM a2ad.receipts USING unnest($1::smallint[], $2::uuid[], $3::text[]) AS doomed (slot, scope, key)
WHERE receipts.slot = doomed.slot AND receipts.scope = doomed.scope AND receipts.key = doomed.key RETURNING 1

-- name: drop_values
WITH gone AS (
    DELETE FROM a2ad.context_states
    USING unnest($1::smallint[], $2::uuid[], $3::text[], $4::bytea[]) AS doomed (slot, scope, context_id, name)
    WHERE context_states.slot = doomed.slot AND context_states.scope = doomed.scope
      AND context_states.context_id = doomed.context_id AND context_states.name = doomed.name
    RETURNING context_states.slot, context_states.scope, tenant, owner, octet_length(value) AS size
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, 0, 0, 0, -sum(size) FROM gone
    GROUP BY slot, scope, tenant, owner ORDER BY slot, scope
    ON CONFLICT (slot, scope, state, part) DO UPDATE SET bytes = totals.bytes + excluded.bytes
)
SELECT 1 FROM gone

-- name: drop_totals
-- Of an owner of whom nothing is left, not even the name is kept. Only rows that are held, and that are nothing together,
-- go: what others count at the same time stays.
WITH held AS MATERIALIZED (
    SELECT slot, scope, state, part, tasks, bytes FROM a2ad.totals
    WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR tenant = $2)
    ORDER BY slot, scope, state DESC, part FOR UPDATE
), nothing AS (
    SELECT slot, scope, state FROM held GROUP BY slot, scope, state HAVING sum(tasks) = 0 AND sum(bytes) = 0
)
DELETE FROM a2ad.totals USING held JOIN nothing USING (slot, scope, state)
WHERE totals.slot = held.slot AND totals.scope = held.scope AND totals.state = held.state AND totals.part = held.part

-- name: usage
SELECT tenant, owner, sum(tasks)::bigint, sum(bytes)::bigint FROM a2ad.totals
WHERE $1::text IS NULL OR (left(owner, 500) = left($1, 500) AND owner = $1)
GROUP BY slot, scope, tenant, owner HAVING sum(tasks) > 0 OR sum(bytes) > 0
ORDER BY sum(bytes) DESC, owner, tenant LIMIT $2

-- name: empty_key
-- The row stays for servers that know the key: they ask for changes. It does not tell whose it was.
UPDATE a2ad.api_keys SET revoked_ms = $2, owner = '', tenant = '', name = '', scopes = NULL, used_ms = NULL,
    change = (SELECT max(change) + 1 FROM a2ad.api_keys) WHERE id = $1 RETURNING 1
