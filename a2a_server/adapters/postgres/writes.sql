-- Each statement stores a group of writes, of one task each, and is a transaction of its own. Whether a write may be done
-- is decided where the row of its task is taken: what does not come out of `moved` or `made` is not written at all. The
-- order in which rows of totals are taken is everybody's, so that no two writers wait for each other: slot, scope, and
-- states downwards, so that the row with the state 0 comes last.
--
-- LIMIT in `given` does not limit anything. It tells the planner that few rows come, whatever it knows of arrays, so that
-- tables are reached by their keys, also those that were empty when the plan was made.

-- name: create
-- A task that exists, in whichever scope, is not made again, and none is made in a slot that another database has.
WITH given AS (
    SELECT * FROM unnest(
        $1::smallint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
        $9::bigint[], $10::bytea[], $11::bigint[], $12::bigint[], $13::bigint[], $14::boolean[], $15::boolean[],
        $16::text[], $17::bigint[], $18::bytea[], $19::bytea[])
    WITH ORDINALITY AS given (
        slot, scope, task, tenant, owner, context_id, state, status_ms,
        made_ns, head, number, shelved, epoch, busy, watched,
        session, log_bytes, artifacts, agent_state, place)
    WHERE EXISTS (SELECT 1 FROM a2ad.shard WHERE one AND get_bit(slots, given.slot) = 1) LIMIT $20
), made AS (
    INSERT INTO a2ad.tasks (slot, scope, task, tenant, owner, context_id, state, status_ms, made_ns, head)
    SELECT slot, scope, task, tenant, owner, context_id, state, status_ms, made_ns, head FROM given
    ON CONFLICT DO NOTHING RETURNING slot, task
), fresh AS (
    SELECT given.*, octet_length(head) + log_bytes + coalesce(octet_length(artifacts), 0)
        + coalesce(octet_length(agent_state), 0) AS size
    FROM given JOIN made USING (slot, task)
), fenced AS (
    INSERT INTO a2ad.fences (
        slot, scope, task, number, shelved, epoch, log_bytes, counted, grown, late, busy, watched, session)
    SELECT slot, scope, task, number, shelved, epoch, log_bytes, size, size, 0, busy, watched, session FROM fresh
), logged AS (
    INSERT INTO a2ad.events (slot, task, number, kind, wire)
    SELECT slot, task, entry.number, kind, wire
    FROM unnest($21::bigint[], $22::bigint[], $23::smallint[], $24::bytea[]) AS entry (place, number, kind, wire)
    JOIN fresh USING (place)
), begun AS (
    INSERT INTO a2ad.turns (slot, task, number, request)
    SELECT slot, task, turn.number, request
    FROM unnest($25::bigint[], $26::bigint[], $27::bytea[]) AS turn (place, number, request) JOIN fresh USING (place)
), shelved AS (
    INSERT INTO a2ad.artifacts (slot, task, wire) SELECT slot, task, artifacts FROM fresh WHERE artifacts IS NOT NULL
), saved AS (
    INSERT INTO a2ad.agent_states (slot, task, wire)
    SELECT slot, task, agent_state FROM fresh WHERE agent_state IS NOT NULL
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, state, $28::smallint, count(*), sum(size) FROM fresh
    GROUP BY slot, scope, tenant, owner, state ORDER BY slot, scope, state DESC
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
)
SELECT place, false AS due FROM fresh

-- name: append
-- Entries that change neither status nor history.
WITH given AS (
    SELECT * FROM unnest(
        $1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bigint[],
        $9::bigint[])
    WITH ORDINALITY AS given (slot, scope, task, expected, number, epoch, carries, told, bytes, place) LIMIT $10
), moved AS (
    UPDATE a2ad.fences SET number = given.number, shelved = CASE
        WHEN fences.shelved = given.expected AND NOT given.carries THEN given.number ELSE fences.shelved END,
        log_bytes = fences.log_bytes + given.bytes, late = fences.late + given.bytes
    FROM given
    WHERE fences.slot = given.slot AND fences.task = given.task AND fences.scope = given.scope
      AND fences.number = given.expected AND fences.epoch = given.epoch
    RETURNING given.*, fences.watched
), entry AS (
    SELECT * FROM unnest(
        $11::bigint[], $12::bigint[], $13::smallint[], $14::bytea[], $15::boolean[], $16::text[], $17::text[])
    AS entry (place, number, kind, wire, told, traceparent, tracestate)
), logged AS (
    INSERT INTO a2ad.events (slot, task, number, kind, wire)
    SELECT slot, task, entry.number, kind, wire FROM entry JOIN moved USING (place)
), billed AS (
    UPDATE a2ad.configs SET pending = configs.pending + moved.told,
        due_ms = CASE WHEN configs.parked_ms IS NULL THEN coalesce(configs.due_ms, configs.served_ms) END
    FROM moved
    WHERE configs.slot = moved.slot AND configs.task = moved.task AND moved.watched AND moved.told > 0
    RETURNING moved.place, configs.slot, configs.task, configs.id, configs.parked_ms IS NULL AS due
), owed AS (
    INSERT INTO a2ad.debts (slot, task, config, number, traceparent, tracestate)
    SELECT billed.slot, billed.task, billed.id, entry.number, traceparent, tracestate
    FROM billed JOIN entry USING (place) WHERE entry.told
)
SELECT place, EXISTS (SELECT 1 FROM billed WHERE billed.place = moved.place AND due) AS due FROM moved

-- name: change
-- Everything that may happen to a task.
WITH given AS (
    SELECT * FROM unnest(
        $1::smallint[], $2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::bigint[],
        $9::bigint[], $10::bigint[], $11::boolean[], $12::text[], $13::text[], $14::boolean[], $15::text[],
        $16::smallint[], $17::bigint[], $18::bytea[], $19::bytea[], $20::bytea[])
    WITH ORDINALITY AS given (
        slot, scope, task, expected, number, epoch, carries, told, bytes,
        new_epoch, claims, session, ended, begins, context_id,
        state, status_ms, head, artifacts, agent_state, place) LIMIT $21
), sized AS (
    -- How much longer this makes what is written anew.
    SELECT given.*, tasks.tenant, tasks.owner, tasks.state AS old_state, coalesce(given.state, tasks.state) AS new_state,
        coalesce(octet_length(given.head) - octet_length(tasks.head), 0)
        + CASE WHEN given.artifacts IS NULL THEN 0 ELSE octet_length(given.artifacts) - coalesce((
            SELECT octet_length(wire) FROM a2ad.artifacts WHERE slot = given.slot AND task = given.task), 0) END
        + CASE WHEN given.agent_state IS NULL THEN 0 ELSE octet_length(given.agent_state) - coalesce((
            SELECT octet_length(wire) FROM a2ad.agent_states WHERE slot = given.slot AND task = given.task), 0) END AS longer
    FROM given JOIN a2ad.tasks USING (slot, task)
), moved AS (
    UPDATE a2ad.fences SET number = given.number, epoch = given.new_epoch,
        log_bytes = fences.log_bytes + given.bytes, late = 0, grown = fences.late + given.bytes + given.longer,
        counted = fences.counted + fences.late + given.bytes + given.longer,
        shelved = CASE WHEN given.artifacts IS NOT NULL OR (fences.shelved = given.expected AND NOT given.carries)
            THEN given.number ELSE fences.shelved END,
        session = CASE WHEN given.claims THEN given.session ELSE fences.session END,
        busy = CASE WHEN given.begins THEN true WHEN given.ended = '{}' THEN fences.busy ELSE EXISTS (
            SELECT 1 FROM a2ad.turns WHERE turns.slot = given.slot AND turns.task = given.task
            AND turns.number <> ALL (given.ended::bigint[])) END
    FROM sized AS given
    WHERE fences.slot = given.slot AND fences.task = given.task AND fences.scope = given.scope
      AND fences.number = given.expected AND fences.epoch = given.epoch
    RETURNING given.*, fences.watched, fences.counted, fences.grown
), entry AS (
    SELECT * FROM unnest(
        $22::bigint[], $23::bigint[], $24::smallint[], $25::bytea[], $26::boolean[], $27::text[], $28::text[])
    AS entry (place, number, kind, wire, told, traceparent, tracestate)
), logged AS (
    INSERT INTO a2ad.events (slot, task, number, kind, wire)
    SELECT slot, task, entry.number, kind, wire FROM entry JOIN moved USING (place)
), headed AS (
    UPDATE a2ad.tasks SET context_id = moved.context_id, state = moved.state, status_ms = moved.status_ms, head = moved.head
    FROM moved WHERE tasks.slot = moved.slot AND tasks.task = moved.task AND moved.head IS NOT NULL
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, scope, tenant, owner, state, $32::smallint, sum(tasks), sum(bytes) FROM (
        SELECT slot, scope, tenant, owner, new_state AS state, 0 AS tasks, grown AS bytes FROM moved
        WHERE new_state = old_state AND grown <> 0
        UNION ALL SELECT slot, scope, tenant, owner, old_state, -1, grown - counted FROM moved WHERE new_state <> old_state
        UNION ALL SELECT slot, scope, tenant, owner, new_state, 1, counted FROM moved WHERE new_state <> old_state) AS steps
    GROUP BY slot, scope, tenant, owner, state ORDER BY slot, scope, state DESC
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
), begun AS (
    INSERT INTO a2ad.turns (slot, task, number, request)
    SELECT slot, task, turn.number, request
    FROM unnest($29::bigint[], $30::bigint[], $31::bytea[]) AS turn (place, number, request) JOIN moved USING (place)
    ON CONFLICT (slot, task, number) DO UPDATE SET request = excluded.request
), ended AS (
    DELETE FROM a2ad.turns USING moved
    WHERE turns.slot = moved.slot AND turns.task = moved.task AND turns.number = ANY (moved.ended::bigint[])
), shelved AS (
    INSERT INTO a2ad.artifacts (slot, task, wire) SELECT slot, task, artifacts FROM moved WHERE artifacts IS NOT NULL
    ON CONFLICT (slot, task) DO UPDATE SET wire = excluded.wire
), saved AS (
    INSERT INTO a2ad.agent_states (slot, task, wire)
    SELECT slot, task, agent_state FROM moved WHERE agent_state IS NOT NULL
    ON CONFLICT (slot, task) DO UPDATE SET wire = excluded.wire
), billed AS (
    UPDATE a2ad.configs SET pending = configs.pending + moved.told,
        due_ms = CASE WHEN configs.parked_ms IS NULL THEN coalesce(configs.due_ms, configs.served_ms) END
    FROM moved
    WHERE configs.slot = moved.slot AND configs.task = moved.task AND moved.watched AND moved.told > 0
    RETURNING moved.place, configs.slot, configs.task, configs.id, configs.parked_ms IS NULL AS due
), owed AS (
    INSERT INTO a2ad.debts (slot, task, config, number, traceparent, tracestate)
    SELECT billed.slot, billed.task, billed.id, entry.number, traceparent, tracestate
    FROM billed JOIN entry USING (place) WHERE entry.told
)
SELECT place, EXISTS (SELECT 1 FROM billed WHERE billed.place = moved.place AND due) AS due FROM moved

-- name: bill
-- What a task is owed whose configs came with its creation.
WITH entry AS (
    SELECT * FROM unnest($3::bigint[], $4::text[], $5::text[]) AS entry (number, traceparent, tracestate)
), billed AS (
    UPDATE a2ad.configs SET pending = pending + (SELECT count(*) FROM entry), due_ms = served_ms
    WHERE slot = $1 AND task = $2 RETURNING id
), owed AS (
    INSERT INTO a2ad.debts (slot, task, config, number, traceparent, tracestate)
    SELECT $1, $2, billed.id, number, traceparent, tracestate FROM billed CROSS JOIN entry
)
SELECT 1 FROM billed

-- name: remember
INSERT INTO a2ad.context_states (slot, scope, context_id, name, tenant, owner, value, grown, updated_ms)
SELECT slot, scope, context_id, $3, tenant, owner, $4, octet_length($4::bytea), status_ms FROM a2ad.tasks WHERE slot = $1 AND task = $2
ON CONFLICT (slot, scope, context_id, name) DO UPDATE SET value = excluded.value, updated_ms = excluded.updated_ms,
    grown = octet_length(excluded.value) - octet_length(context_states.value)
RETURNING grown

-- name: forget
DELETE FROM a2ad.context_states
WHERE (slot, scope, context_id) = (SELECT slot, scope, context_id FROM a2ad.tasks WHERE slot = $1 AND task = $2) AND name = $3
RETURNING -octet_length(value)::bigint AS grown

-- name: context
SELECT context_id FROM a2ad.tasks WHERE slot = $1 AND task = $2

-- name: reached
-- How far a task has come, and who wrote its last entry.
SELECT number, epoch, session, (SELECT wire FROM a2ad.events WHERE slot = $1 AND task = $2 AND number = fences.number)
FROM a2ad.fences WHERE slot = $1 AND task = $2 AND scope = $3
