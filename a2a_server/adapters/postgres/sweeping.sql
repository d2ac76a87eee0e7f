-- Finished tasks are found by scope and state, so that no further index has to be written by every send.

-- name: next_lane
SELECT slot, scope, state FROM a2ad.totals
WHERE (slot, scope, state) > ($1, $2, $3) AND state IN (3, 4, 5, 7) ORDER BY slot, scope, state LIMIT 1

-- name: finished
-- The oldest of a lane, how long their logs are, and whether each may be removed now.
SELECT task, status_ms, number, NOT busy
    AND NOT ($8 AND EXISTS (SELECT 1 FROM a2ad.configs WHERE slot = tasks.slot AND task = tasks.task AND due_ms IS NOT NULL))
    AND ($9 OR EXISTS (SELECT 1 FROM a2ad.events WHERE slot = tasks.slot AND task = tasks.task)) AS ready
FROM a2ad.tasks JOIN a2ad.fences USING (slot, task)
WHERE tasks.slot = $1 AND tasks.scope = $2 AND state = $3 AND (status_ms, task) > ($4, $5) AND status_ms < $6
ORDER BY status_ms, task LIMIT $7

-- name: first_owing
-- Since when the oldest of the tasks is finished that may still have something to send.
SELECT min(status_ms) FROM a2ad.configs JOIN a2ad.tasks USING (slot, task) WHERE due_ms IS NOT NULL

-- name: take_away
-- Tasks that are still old ($3, $4), or were chosen ($7), with all that is theirs. One with turns stays, unless it was
-- chosen and its session is over. Of those that are too large, logs and debts go later.
WITH held AS MATERIALIZED (
    SELECT fences.slot, fences.task, fences.counted, fences.number > $6 AS large FROM a2ad.fences JOIN a2ad.tasks USING (slot, task)
    WHERE fences.slot = $1 AND fences.task = ANY ($2::text[]) AND (NOT busy OR $7 AND NOT EXISTS (
          SELECT 1 FROM a2ad.sessions WHERE id = fences.session AND until > clock_timestamp()))
      AND ($7 OR state IN (3, 4, 5, 7) AND status_ms < $3 AND NOT ($4 AND EXISTS (
          SELECT 1 FROM a2ad.configs WHERE slot = fences.slot AND task = fences.task AND due_ms IS NOT NULL)))
    ORDER BY fences.task FOR UPDATE OF fences SKIP LOCKED
), gone AS (
    DELETE FROM a2ad.tasks USING held WHERE tasks.slot = held.slot AND tasks.task = held.task
    RETURNING tasks.slot, tasks.task, tasks.scope, tasks.tenant, tasks.owner, tasks.state, held.counted
), fenced AS (
    DELETE FROM a2ad.fences USING held WHERE fences.slot = held.slot AND fences.task = held.task
), turned AS (
    DELETE FROM a2ad.turns USING held WHERE turns.slot = held.slot AND turns.task = held.task
), receipted AS (
    DELETE FROM a2ad.receipts USING held WHERE receipts.slot = held.slot AND receipts.task = held.task RETURNING 1
), shelved AS (
    DELETE FROM a2ad.artifacts USING held WHERE artifacts.slot = held.slot AND artifacts.task = held.task
), saved AS (
    DELETE FROM a2ad.agent_states USING held WHERE agent_states.slot = held.slot AND agent_states.task = held.task
), watched AS (
    DELETE FROM a2ad.configs USING held WHERE configs.slot = held.slot AND configs.task = held.task
    RETURNING configs.slot, configs.task, octet_length(wire) AS size
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, state, $5::smallint, -sum(tasks), -sum(bytes) FROM (
        SELECT slot, scope, tenant, owner, state, 1 AS tasks, counted AS bytes FROM gone
        UNION ALL SELECT slot, scope, tenant, owner, 0, 0, size FROM watched JOIN gone USING (slot, task)) AS steps
    GROUP BY slot, scope, tenant, owner, state ORDER BY slot, scope, state DESC
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
), left_over AS (
    INSERT INTO a2ad.leftovers (slot, task) SELECT slot, task FROM held WHERE large ON CONFLICT DO NOTHING
), owed AS (
    DELETE FROM a2ad.debts USING held WHERE debts.slot = held.slot AND debts.task = held.task AND NOT large RETURNING 1
), logged AS (
    DELETE FROM a2ad.events USING held WHERE events.slot = held.slot AND events.task = held.task AND NOT large RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS tasks, (SELECT count(*) FROM logged) AS events,
    (SELECT count(*) FROM watched) AS configs, (SELECT count(*) FROM owed) AS webhooks,
    (SELECT count(*) FROM receipted) AS receipts

-- name: leftover
SELECT slot, task FROM a2ad.leftovers LIMIT 1

-- name: cut
-- A part of what is left of a task.
WITH logged AS (
    DELETE FROM a2ad.events WHERE slot = $1 AND task = $2 AND number IN (
        SELECT number FROM a2ad.events WHERE slot = $1 AND task = $2 ORDER BY number LIMIT $3) RETURNING 1
), owed AS (
    DELETE FROM a2ad.debts WHERE slot = $1 AND task = $2 AND (config, number) IN (
        SELECT config, number FROM a2ad.debts WHERE slot = $1 AND task = $2 ORDER BY config, number LIMIT $3) RETURNING 1
)
SELECT (SELECT count(*) FROM logged) AS events, (SELECT count(*) FROM owed) AS webhooks

-- name: nothing_left
DELETE FROM a2ad.leftovers WHERE slot = $1 AND task = $2

-- name: hold_log
SELECT number, shelved, log_bytes FROM a2ad.fences WHERE slot = $1 AND task = $2 AND NOT busy FOR UPDATE

-- name: shelve
WITH fence AS (UPDATE a2ad.fences SET shelved = $3 WHERE slot = $1 AND task = $2)
INSERT INTO a2ad.artifacts (slot, task, wire) VALUES ($1, $2, $4)
ON CONFLICT (slot, task) DO UPDATE SET wire = excluded.wire

-- name: without_log
-- What is counted of a task whose log goes: everything else.
WITH size AS (
    SELECT slot, task, tasks.scope, tenant, owner, state, counted, octet_length(head)
        + coalesce((SELECT octet_length(wire) FROM a2ad.artifacts WHERE slot = $1 AND task = $2), 0)
        + coalesce((SELECT octet_length(wire) FROM a2ad.agent_states WHERE slot = $1 AND task = $2), 0) AS bytes
    FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) WHERE slot = $1 AND task = $2
), fence AS (
    UPDATE a2ad.fences SET log_bytes = 0, late = 0, grown = size.bytes - size.counted, counted = size.bytes
    FROM size WHERE fences.slot = size.slot AND fences.task = size.task
)
INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
SELECT slot, scope, tenant, owner, state, $3::smallint, 0, bytes - counted FROM size
ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes

-- name: cut_log
DELETE FROM a2ad.events WHERE slot = $1 AND task = $2 AND number IN (
    SELECT number FROM a2ad.events WHERE slot = $1 AND task = $2 ORDER BY number LIMIT $3) RETURNING 1

-- name: parked
WITH old AS (
    SELECT slot, task, id FROM a2ad.configs WHERE parked_ms < $1 ORDER BY parked_ms LIMIT $2 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM a2ad.configs USING old
    WHERE configs.slot = old.slot AND configs.task = old.task AND configs.id = old.id
    RETURNING configs.slot, configs.task, octet_length(wire) AS size
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, 0, $3::smallint, 0, -sum(size) FROM gone JOIN a2ad.tasks USING (slot, task)
    GROUP BY slot, scope, tenant, owner ORDER BY slot, scope
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
), owed AS (
    DELETE FROM a2ad.debts USING old
    WHERE debts.slot = old.slot AND debts.task = old.task AND debts.config = old.id RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS configs, (SELECT count(*) FROM owed) AS webhooks

-- name: expired
WITH old AS (
    SELECT slot, scope, key FROM a2ad.receipts WHERE expires_ms <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED
)
DELETE FROM a2ad.receipts USING old
WHERE receipts.slot = old.slot AND receipts.scope = old.scope AND receipts.key = old.key RETURNING 1

-- name: unchanged
SELECT updated_ms, slot, scope, context_id, name FROM a2ad.context_states
WHERE (updated_ms, slot, scope, context_id, name) > ($1, $2, $3, $4, $5) AND updated_ms < $6
ORDER BY updated_ms, slot, scope, context_id, name LIMIT $7

-- name: forget_values
WITH gone AS (
    DELETE FROM a2ad.context_states
    USING unnest($1::smallint[], $2::uuid[], $3::text[], $4::bytea[]) AS old (slot, scope, context_id, name)
    WHERE context_states.slot = old.slot AND context_states.scope = old.scope AND context_states.context_id = old.context_id
      AND context_states.name = old.name AND updated_ms < $5 AND NOT EXISTS (
        SELECT 1 FROM a2ad.tasks WHERE tasks.slot = old.slot AND tasks.scope = old.scope AND tasks.context_id = old.context_id
        AND (status_ms >= $5 OR state NOT IN (3, 4, 5, 7)))
    RETURNING context_states.slot, context_states.scope, tenant, owner, octet_length(value) AS size
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, 0, $6::smallint, 0, -sum(size) FROM gone
    GROUP BY slot, scope, tenant, owner ORDER BY slot, scope
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
)
SELECT count(*) FROM gone
