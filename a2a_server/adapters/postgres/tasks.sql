-- name: load
-- One statement sees one moment: everything belongs together.
SELECT tasks.head, fences.number, fences.epoch, agent_states.wire AS state, fences.log_bytes,
    CASE WHEN fences.busy THEN fences.session ELSE '' END AS session, artifacts.wire, tail.numbers, tail.wires
FROM a2ad.tasks JOIN a2ad.fences USING (slot, task)
LEFT JOIN a2ad.artifacts USING (slot, task) LEFT JOIN a2ad.agent_states USING (slot, task)
CROSS JOIN LATERAL (
    SELECT array_agg(number ORDER BY number) AS numbers, array_agg(wire ORDER BY number) AS wires FROM a2ad.events
    WHERE slot = $1 AND task = $2 AND fences.shelved < fences.number
    AND events.number > fences.shelved AND events.number <= fences.number AND kind = $4) AS tail
WHERE tasks.slot = $1 AND tasks.task = $2 AND tasks.scope = $3

-- name: entries
SELECT number, wire FROM a2ad.events WHERE slot = $1 AND task = $2 AND number > $3::bigint ORDER BY number LIMIT $4

-- name: entries_without_slot
-- The id does not tell the slot. A task without a fence is on its way from or to another database.
SELECT number, wire FROM a2ad.events
WHERE (slot, task) = (SELECT slot, task FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) WHERE tasks.task = $1)
  AND number > $2::bigint ORDER BY number LIMIT $3

-- name: has_context
SELECT 1 FROM a2ad.tasks WHERE slot = $1 AND scope = $2 AND context_id = $3 LIMIT 1

-- name: claim
-- Tasks of sessions that are over, and those that a write has claimed whose commit did not answer. The index has all
-- tasks with turns.
WITH over AS (
    SELECT slot, task FROM a2ad.fences WHERE busy AND session = ANY ($3::text[]) ORDER BY session LIMIT $2
    FOR NO KEY UPDATE SKIP LOCKED
), unheard AS (
    SELECT slot, task FROM a2ad.fences
    JOIN unnest($4::smallint[], $5::text[], $6::text[], $7::bigint[]) AS write (slot, task, session, epoch)
    USING (slot, task, session, epoch) WHERE busy FOR NO KEY UPDATE OF fences SKIP LOCKED
), abandoned AS (
    SELECT slot, task FROM over UNION SELECT slot, task FROM unheard
)
UPDATE a2ad.fences SET epoch = fences.epoch + 1, session = $1
FROM abandoned JOIN a2ad.tasks USING (slot, task)
WHERE fences.slot = abandoned.slot AND fences.task = abandoned.task
RETURNING tasks.tenant, tasks.owner, tasks.task, fences.epoch, tasks.made_ns,
    ARRAY(SELECT number FROM a2ad.turns WHERE slot = abandoned.slot AND task = abandoned.task ORDER BY number) AS numbers,
    ARRAY(SELECT request FROM a2ad.turns WHERE slot = abandoned.slot AND task = abandoned.task ORDER BY number) AS requests

-- name: claimed
-- Whether a takeover was stored whose commit did not answer.
SELECT 1 FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) WHERE task = $1 AND session = $2 AND epoch = $3

-- name: recall
SELECT key, fingerprint, task, expires_ms, reply, session FROM a2ad.receipts
WHERE slot = $1 AND scope = $2 AND key = $3 AND expires_ms > $4

-- name: hold_receipt
SELECT key, fingerprint, task, expires_ms, reply, session FROM a2ad.receipts
WHERE slot = $1 AND scope = $2 AND key = $3 FOR UPDATE

-- name: exists
SELECT 1 FROM a2ad.tasks WHERE task = $1

-- name: leave_receipt
-- Unless a living one has the key. One that was reserved for the task that is made ($11) gives way, and so does one that is dead ($12).
INSERT INTO a2ad.receipts (slot, scope, key, tenant, owner, fingerprint, task, expires_ms, reply, session)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (slot, scope, key) DO UPDATE SET fingerprint = excluded.fingerprint, task = excluded.task,
    expires_ms = excluded.expires_ms, reply = excluded.reply, session = excluded.session
WHERE receipts.expires_ms <= $13 OR receipts.task = $11 OR $12
RETURNING key

-- name: answer
UPDATE a2ad.receipts SET reply = $4 WHERE slot = $1 AND scope = $2 AND key = $3 AND reply = ''
