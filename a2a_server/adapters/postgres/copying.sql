-- Rows in the form of `ports/copying.py`. What has been removed for everybody is not among them.

-- name: secrets
SELECT name, value FROM a2ad.secrets

-- name: content_keys
SELECT id, turn FROM a2ad.content_keys

-- name: tasks
SELECT tenant, owner, tasks.task, context_id, state, status_ms, number, shelved, epoch, busy::integer,
    CASE WHEN busy THEN session ELSE '' END, log_bytes, head, artifacts.wire, agent_states.wire
FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) LEFT JOIN a2ad.artifacts USING (slot, task)
LEFT JOIN a2ad.agent_states USING (slot, task) ORDER BY made_ns, tasks.task

-- name: events
SELECT tenant, owner, task, number, wire FROM a2ad.events JOIN a2ad.tasks USING (slot, task)

-- name: turns
SELECT tenant, owner, task, number, request FROM a2ad.turns JOIN a2ad.tasks USING (slot, task)

-- name: context_states
SELECT tenant, owner, context_id, name, updated_ms, value FROM a2ad.context_states

-- name: receipts
SELECT tenant, owner, key, task, expires_ms, fingerprint, reply FROM a2ad.receipts

-- name: configs
SELECT tasks.tenant, tasks.owner, task, id, host, version, schemes, due_ms, claimed_until_ms, failing_ms, parked_ms, why,
    served_ms, pending, delivered, skipped, failed, attempts, rejections, over::integer, wire
FROM a2ad.configs JOIN a2ad.tasks USING (slot, task)

-- name: debts
SELECT tenant, owner, task, config, number, traceparent, tracestate FROM a2ad.debts JOIN a2ad.tasks USING (slot, task)

-- name: api_keys
SELECT id, digest, owner, tenant, scopes, extended_card::integer, name, made_ms, expires_ms, used_ms, revoked_ms, change
FROM a2ad.api_keys

-- name: no_long_waits
SELECT set_config('lock_timeout', '5s', true)

-- name: freeze
-- Everybody may read, and nobody write.
LOCK TABLE a2ad.tasks, a2ad.fences, a2ad.events, a2ad.artifacts, a2ad.agent_states, a2ad.turns, a2ad.totals, a2ad.context_states,
    a2ad.receipts, a2ad.configs, a2ad.debts, a2ad.api_keys, a2ad.secrets, a2ad.content_keys, a2ad.sessions, a2ad.leftovers
IN SHARE ROW EXCLUSIVE MODE

-- name: living
SELECT count(*) FROM a2ad.sessions WHERE until > clock_timestamp()

-- name: occupied
SELECT EXISTS (SELECT 1 FROM a2ad.tasks) OR EXISTS (SELECT 1 FROM a2ad.receipts) OR EXISTS (SELECT 1 FROM a2ad.context_states)
    OR EXISTS (SELECT 1 FROM a2ad.api_keys) OR EXISTS (SELECT 1 FROM a2ad.events) OR EXISTS (SELECT 1 FROM a2ad.leftovers)

-- name: clear_secrets
-- What a server has made that found nothing.
DELETE FROM a2ad.secrets

-- name: clear_content_keys
DELETE FROM a2ad.content_keys

-- name: clear_totals
DELETE FROM a2ad.totals

-- name: watched
UPDATE a2ad.fences SET watched = true FROM a2ad.configs WHERE configs.slot = fences.slot AND configs.task = fences.task

-- name: count_tasks
INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
SELECT tasks.slot, tasks.scope, tenant, owner, state, 0, count(*), sum(counted)
FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) GROUP BY tasks.slot, tasks.scope, tenant, owner, state

-- name: count_others
-- Push configs, and the states of contexts.
INSERT INTO a2ad.totals (slot, scope, tenant, owner, state, part, tasks, bytes)
SELECT slot, scope, tenant, owner, 0, 0, 0, sum(size) FROM (
    SELECT slot, scope, tasks.tenant, tasks.owner, octet_length(wire) AS size FROM a2ad.configs JOIN a2ad.tasks USING (slot, task)
    UNION ALL SELECT slot, scope, tenant, owner, octet_length(value) FROM a2ad.context_states) AS sizes
GROUP BY slot, scope, tenant, owner
