-- Slots move in the steps that `journey.py` has. {table} is one of its own lists.

-- name: take
-- From now on this command moves slots here, and no other.
UPDATE a2ad.shard SET mover = $1 WHERE one

-- name: begin
UPDATE a2ad.shard SET moving = $2, moving_to = $3 WHERE one AND mover = $1 RETURNING 1

-- name: ours
-- Whether no other command has taken over. That one waits until this transaction ends.
SELECT 1 FROM a2ad.shard WHERE one AND mover = $1 FOR SHARE

-- name: over
UPDATE a2ad.shard SET moving = NULL, moving_to = NULL, mover = NULL WHERE one AND mover = $1

-- name: moving_to
SELECT moving_to FROM a2ad.shard WHERE one

-- name: unaware
-- How many living servers do not know a database.
SELECT count(*) FROM a2ad.sessions WHERE until > clock_timestamp() AND NOT knows @> ARRAY[$1::uuid]

-- name: sizes
SELECT slot, sum(tasks)::bigint AS tasks, sum(bytes)::bigint AS bytes FROM a2ad.totals GROUP BY slot

-- name: database_size
SELECT pg_database_size(current_database())

-- name: key
-- What comes may be sealed with an older key than what is there.
INSERT INTO a2ad.content_keys (id, turn) SELECT $1, coalesce(min(turn), 1) - 1 FROM a2ad.content_keys ON CONFLICT DO NOTHING

-- name: versions
-- What is there of a table, and which version of each row. Every change makes another one.
SELECT slot, task, xmin::text AS version FROM a2ad.{table} WHERE slot = ANY ($1::smallint[])

-- name: rows
SELECT {table}.* FROM a2ad.{table} JOIN unnest($1::smallint[], $2::text[]) AS wanted (slot, task) USING (slot, task)

-- name: without
DELETE FROM a2ad.{table} USING unnest($1::smallint[], $2::text[]) AS gone (slot, task)
WHERE {table}.slot = gone.slot AND {table}.task = gone.task

-- name: logs
SELECT slot, task, min(number) AS first, max(number) AS last FROM a2ad.events WHERE slot = ANY ($1::smallint[]) GROUP BY slot, task

-- name: entries
SELECT events.* FROM a2ad.events
JOIN unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[]) AS wanted (slot, task, first, last)
ON events.slot = wanted.slot AND events.task = wanted.task AND events.number BETWEEN wanted.first AND wanted.last

-- name: without_entries
DELETE FROM a2ad.events USING unnest($1::smallint[], $2::text[], $3::bigint[], $4::bigint[]) AS gone (slot, task, first, last)
WHERE events.slot = gone.slot AND events.task = gone.task AND events.number BETWEEN gone.first AND gone.last

-- name: hasten
SET LOCAL lock_timeout = '300ms'

-- name: still
-- Whoever writes is done, and nobody begins until this transaction ends. Reading goes on.
LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE

-- name: own
UPDATE a2ad.shard SET slots = $1, version = version + 1 WHERE one

-- name: leave
WITH gone AS (DELETE FROM a2ad.{table} WHERE slot = ANY ($1::smallint[]) RETURNING *)
INSERT INTO a2ad.leaving (slot, kind, content) SELECT slot, '{table}', to_jsonb(gone) FROM gone

-- name: left
SELECT content::text FROM a2ad.leaving WHERE slot = ANY ($1::smallint[]) AND kind = '{table}'

-- name: arrive
INSERT INTO a2ad.{table} SELECT made.* FROM unnest($1::text[]) AS row (content)
CROSS JOIN LATERAL jsonb_populate_record(NULL::a2ad.{table}, row.content::jsonb) AS made

-- name: clear
DELETE FROM a2ad.{table} WHERE slot = ANY ($1::smallint[])

-- name: clear_some
DELETE FROM a2ad.{table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM a2ad.{table} WHERE slot = ANY ($1::smallint[]) LIMIT 2000)) RETURNING 1
