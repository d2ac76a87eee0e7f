-- The bounds are always there; without a filter they are the ends of time. Heads come as long as there is room for them.

-- name: page
SELECT task, octet_length(head) AS size, CASE WHEN sum(octet_length(head)) OVER upto - octet_length(head) < $7 THEN head END AS head
FROM (
    SELECT task, status_ms, head FROM a2ad.tasks
    WHERE slot = $1 AND scope = $2 AND status_ms >= $3 AND (status_ms, task) < ($4, $5)
    ORDER BY status_ms DESC, task DESC LIMIT $6) AS page
WINDOW upto AS (ORDER BY status_ms DESC, task DESC ROWS UNBOUNDED PRECEDING)

-- name: page_of_state
SELECT task, octet_length(head) AS size, CASE WHEN sum(octet_length(head)) OVER upto - octet_length(head) < $7 THEN head END AS head
FROM (
    SELECT task, status_ms, head FROM a2ad.tasks
    WHERE slot = $1 AND scope = $2 AND state = $8::integer AND status_ms >= $3 AND (status_ms, task) < ($4, $5)
    ORDER BY status_ms DESC, task DESC LIMIT $6) AS page
WINDOW upto AS (ORDER BY status_ms DESC, task DESC ROWS UNBOUNDED PRECEDING)

-- name: page_of_context
SELECT task, octet_length(head) AS size, CASE WHEN sum(octet_length(head)) OVER upto - octet_length(head) < $7 THEN head END AS head
FROM (
    SELECT task, status_ms, head FROM a2ad.tasks
    WHERE slot = $1 AND scope = $2 AND context_id = $9 AND $8::integer IN (0, state) AND status_ms >= $3 AND (status_ms, task) < ($4, $5)
    ORDER BY status_ms DESC, task DESC LIMIT $6) AS page
WINDOW upto AS (ORDER BY status_ms DESC, task DESC ROWS UNBOUNDED PRECEDING)

-- name: newest_of_context
-- Tasks with the same status time in the order of their creation: their ids are in none.
SELECT task, octet_length(head) AS size, CASE WHEN sum(octet_length(head)) OVER upto - octet_length(head) < $6 THEN head END AS head
FROM (
    SELECT task, status_ms, made_ns, head FROM a2ad.tasks
    WHERE slot = $1 AND scope = $2 AND context_id = $3 AND task <> $4
    ORDER BY status_ms DESC, made_ns DESC LIMIT $5) AS page
WINDOW upto AS (ORDER BY status_ms DESC, made_ns DESC ROWS UNBOUNDED PRECEDING)

-- name: state_of_context
SELECT name, value FROM a2ad.context_states WHERE slot = $1 AND scope = $2 AND context_id = $3

-- name: total
SELECT coalesce(sum(tasks), 0)::bigint FROM a2ad.totals WHERE slot = $1 AND scope = $2

-- name: total_of_state
SELECT coalesce(sum(tasks), 0)::bigint FROM a2ad.totals WHERE slot = $1 AND scope = $2 AND state = $3::integer

-- name: count
SELECT count(*) FROM a2ad.tasks WHERE slot = $1 AND scope = $2 AND status_ms >= $3

-- name: count_of_state
SELECT count(*) FROM a2ad.tasks WHERE slot = $1 AND scope = $2 AND state = $4::integer AND status_ms >= $3

-- name: count_of_context
SELECT count(*) FROM a2ad.tasks WHERE slot = $1 AND scope = $2 AND context_id = $5 AND $4::integer IN (0, state) AND status_ms >= $3

-- name: sizes
-- How much is stored of the artifacts of listed tasks. PostgreSQL knows lengths without reading.
SELECT fences.task, coalesce(octet_length(artifacts.wire), 0) + CASE WHEN fences.shelved < fences.number THEN coalesce((
    SELECT sum(octet_length(wire)) FROM a2ad.events
    WHERE events.slot = fences.slot AND events.task = fences.task AND events.number > fences.shelved), 0) ELSE 0 END AS size
FROM a2ad.fences LEFT JOIN a2ad.artifacts USING (slot, task) WHERE fences.slot = $1 AND fences.task = ANY ($2::text[])

-- name: shelves
SELECT fences.task, artifacts.wire, tail.numbers, tail.wires
FROM a2ad.fences LEFT JOIN a2ad.artifacts USING (slot, task)
CROSS JOIN LATERAL (
    SELECT array_agg(number ORDER BY number) AS numbers, array_agg(wire ORDER BY number) AS wires FROM a2ad.events
    WHERE events.slot = fences.slot AND events.task = fences.task AND fences.shelved < fences.number
    AND events.number > fences.shelved AND kind = $3) AS tail
WHERE fences.slot = $1 AND fences.task = ANY ($2::text[])

-- name: waiting_since
SELECT status_ms, tenant, owner, task FROM a2ad.tasks JOIN a2ad.fences USING (slot, task)
WHERE state = $1 AND state IN (6, 8) AND status_ms < $2 AND NOT busy ORDER BY status_ms, task LIMIT $3
