-- name: put
-- One that is replaced is parked no more, and the claim on it is void: the next attempt goes to the new address.
WITH fence AS (
    UPDATE a2ad.fences SET watched = true WHERE slot = $1 AND task = $2 AND scope = $3 RETURNING slot, task
)
INSERT INTO a2ad.configs (slot, task, id, tenant, owner, host, version, schemes, wire, grown, over)
SELECT slot, task, $4, tenant, owner, $5, $6, $7, $8, octet_length($8::bytea), $9 AND state IN (3, 4, 5, 7) FROM fence JOIN a2ad.tasks USING (slot, task)
ON CONFLICT (slot, task, id) DO UPDATE SET wire = excluded.wire, version = excluded.version, schemes = excluded.schemes,
    host = excluded.host, attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '',
    grown = octet_length(excluded.wire) - octet_length(configs.wire),
    claimed_until_ms = NULL, due_ms = CASE WHEN configs.pending > 0 THEN configs.served_ms END
RETURNING grown

-- name: get
SELECT id, wire, version, schemes FROM a2ad.configs
WHERE slot = $1 AND task = $2 AND id = $4 AND EXISTS (SELECT 1 FROM a2ad.tasks WHERE slot = $1 AND task = $2 AND scope = $3)

-- name: task
SELECT 1 FROM a2ad.tasks WHERE slot = $1 AND task = $2 AND scope = $3

-- name: configs
SELECT id, wire, version, schemes FROM a2ad.configs WHERE slot = $1 AND task = $2 AND id > $3 ORDER BY id LIMIT $4

-- name: count
SELECT count(*) FROM (
    SELECT 1 FROM a2ad.configs WHERE owner = $1 AND host = $2 AND NOT over AND parked_ms IS NULL LIMIT $3) AS found

-- name: count_all
SELECT count(*) FROM (SELECT 1 FROM a2ad.configs WHERE owner = $1 AND NOT over AND parked_ms IS NULL LIMIT $2) AS found

-- name: hosts
-- From each host to the next in the index, however many configs each has.
WITH RECURSIVE hosts (host) AS (
    SELECT min(host) FROM a2ad.configs WHERE owner = $1 AND NOT over AND parked_ms IS NULL
    UNION ALL
    SELECT (SELECT min(configs.host) FROM a2ad.configs
            WHERE owner = $1 AND configs.host > hosts.host AND NOT over AND parked_ms IS NULL)
    FROM hosts WHERE host IS NOT NULL
)
SELECT host FROM hosts WHERE host IS NOT NULL LIMIT $2

-- name: delete
WITH gone AS (
    DELETE FROM a2ad.configs WHERE slot = $1 AND task = $2 AND id = $3
    RETURNING slot, task, id, tenant, owner, octet_length(wire) AS size
), counted AS (
    INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
    SELECT slot, $4::uuid, tenant, owner, 0, $5::smallint, 0, -size FROM gone
    ON CONFLICT (slot, scope, state, part) DO UPDATE
    SET tasks = totals.tasks + excluded.tasks, bytes = totals.bytes + excluded.bytes
)
DELETE FROM a2ad.debts USING gone WHERE debts.slot = gone.slot AND debts.task = gone.task AND debts.config = gone.id

-- name: next
SELECT min(due_ms) FROM a2ad.configs WHERE due_ms IS NOT NULL

-- name: lanes
-- The next owners and hosts in alphabetical order, and how many of each one's configs are due.
WITH RECURSIVE lanes AS (
    (SELECT owner, host FROM a2ad.configs WHERE (owner, host) > ($1, $2) AND due_ms IS NOT NULL
     ORDER BY owner, host LIMIT 1)
    UNION ALL
    SELECT next.owner, next.host FROM lanes CROSS JOIN LATERAL (
        SELECT owner, host FROM a2ad.configs
        WHERE (configs.owner, configs.host) > (lanes.owner, lanes.host) AND due_ms IS NOT NULL
        ORDER BY owner, host LIMIT 1) AS next
)
SELECT owner, host, (SELECT count(*) FROM (
    SELECT 1 FROM a2ad.configs WHERE configs.owner = lanes.owner AND configs.host = lanes.host AND due_ms <= $3 LIMIT $4
    ) AS due) AS due
FROM lanes LIMIT $5

-- name: claim
WITH wanted AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) WITH ORDINALITY AS wanted (owner, host, most, turn)
), chosen AS (
    SELECT found.*, turn FROM wanted CROSS JOIN LATERAL (
        SELECT slot, task, id, due_ms FROM a2ad.configs
        WHERE owner = wanted.owner AND host = wanted.host AND due_ms <= $4
        ORDER BY due_ms LIMIT wanted.most FOR NO KEY UPDATE SKIP LOCKED) AS found
)
UPDATE a2ad.configs SET due_ms = $5, claimed_until_ms = $5, served_ms = $4
FROM chosen CROSS JOIN LATERAL (
    SELECT number, traceparent, tracestate FROM a2ad.debts
    WHERE slot = chosen.slot AND task = chosen.task AND config = chosen.id ORDER BY number LIMIT 1) AS first
WHERE configs.slot = chosen.slot AND configs.task = chosen.task AND configs.id = chosen.id
RETURNING turn, chosen.due_ms AS since, tenant, configs.owner, configs.task, first.number, configs.id, wire, version, schemes, attempts,
    host, failing_ms, traceparent, tracestate, rejections

-- name: put_off
UPDATE a2ad.configs SET due_ms = $6, claimed_until_ms = NULL, attempts = attempts + $7::integer,
    failed = failed + $7::integer, rejections = rejections + $8::integer,
    failing_ms = CASE WHEN $7::integer = 1 THEN coalesce(failing_ms, $5) ELSE failing_ms END,
    parked_ms = CASE WHEN $6::bigint IS NULL THEN $5::bigint END, why = CASE WHEN $7::integer = 1 THEN $9 ELSE why END
WHERE slot = $1 AND task = $2 AND id = $3 AND claimed_until_ms = $4
RETURNING 1

-- name: paid
-- Or skipped. The sums are in the row itself, so that whoever waits for it counts on from what the other has left.
WITH held AS (
    UPDATE a2ad.configs SET claimed_until_ms = NULL, attempts = 0, rejections = 0, failing_ms = NULL, why = $7,
        delivered = delivered + 1 - $6::integer, skipped = skipped + $6::integer, failed = failed + $6::integer,
        pending = pending - 1, due_ms = CASE WHEN pending > 1 THEN served_ms END,
        over = over OR (pending <= 1 AND (SELECT state IN (3, 4, 5, 7) FROM a2ad.tasks WHERE slot = $1 AND task = $2))
    WHERE slot = $1 AND task = $2 AND id = $3 AND claimed_until_ms = $4
      AND EXISTS (SELECT 1 FROM a2ad.debts WHERE slot = $1 AND task = $2 AND config = $3 AND number = $5)
    RETURNING 1
)
DELETE FROM a2ad.debts WHERE slot = $1 AND task = $2 AND config = $3 AND number = $5 AND EXISTS (SELECT 1 FROM held)
RETURNING 1

-- name: set_back
-- Once per start, and the only query that looks at all configs: those that were served in the future have a new clock. The
-- servers' idea of the database's clock may differ by a minute, and nobody takes away what another one has just claimed.
UPDATE a2ad.configs SET served_ms = $1, due_ms = least(due_ms, $1) WHERE served_ms > $1::bigint + 60000

-- name: account
SELECT slot, task, id, tenant, owner, wire, version, pending,
    (SELECT min(number) FROM a2ad.debts WHERE slot = configs.slot AND task = configs.task AND config = configs.id) AS next_number,
    delivered, skipped, failed, attempts, due_ms, claimed_until_ms IS NOT NULL AS claimed, failing_ms, parked_ms, why
FROM a2ad.configs WHERE

-- name: due
due_ms IS NOT NULL ORDER BY due_ms LIMIT $1

-- name: parked
parked_ms IS NOT NULL ORDER BY parked_ms LIMIT $1

-- name: of_task
(slot, task) = (SELECT slot, task FROM a2ad.tasks WHERE task = $2) ORDER BY id LIMIT $1

-- name: one
(slot, task) = (SELECT slot, task FROM a2ad.tasks WHERE task = $2) AND id = $3 LIMIT $1

-- name: retry
UPDATE a2ad.configs SET attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '',
    due_ms = CASE WHEN claimed_until_ms IS NOT NULL THEN due_ms WHEN pending > 0 THEN served_ms END
WHERE slot = $1 AND task = $2 AND id = $3

-- name: hold
-- Before what is owed is dropped, so that nothing comes to be owed meanwhile.
SELECT 1 FROM a2ad.configs WHERE slot = $1 AND task = $2 AND id = $3 FOR UPDATE

-- name: drop
DELETE FROM a2ad.debts WHERE slot = $1 AND task = $2 AND config = $3

-- name: dropped
UPDATE a2ad.configs SET attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '',
    claimed_until_ms = NULL, due_ms = NULL, pending = 0,
    over = (SELECT state IN (3, 4, 5, 7) FROM a2ad.tasks WHERE slot = $1 AND task = $2)
WHERE slot = $1 AND task = $2 AND id = $3
