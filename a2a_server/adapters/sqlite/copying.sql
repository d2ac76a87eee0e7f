-- Rows in the form of `ports/copying.py`. What has been removed for everybody is not among them.

-- name: secrets
SELECT name, value FROM secrets

-- name: content_keys
SELECT id, turn FROM content_keys

-- name: tasks
SELECT tenant, owner, tasks.id, context_id, state, status_ms,
    max(tasks.number, coalesce((SELECT max(number) FROM events WHERE task = tasks.key), 0)),
    max(tasks.shelved, coalesce(artifacts.number, 0)), coalesce(leases.epoch, 1), coalesce(leases.turns, 0) > 0,
    CASE WHEN leases.turns > 0 THEN leases.replica ELSE '' END,
    tasks.log_bytes + coalesce((SELECT sum(length(wire)) FROM events WHERE task = tasks.key AND number > tasks.number), 0),
    head, artifacts.wire, agent_states.wire
FROM tasks JOIN scopes ON scopes.key = tasks.scope LEFT JOIN leases ON leases.task = tasks.key
LEFT JOIN artifacts ON artifacts.task = tasks.key LEFT JOIN agent_states ON agent_states.task = tasks.key
ORDER BY tasks.key

-- name: events
SELECT tenant, owner, tasks.id, events.number, wire
FROM events CROSS JOIN tasks ON tasks.key = events.task CROSS JOIN scopes ON scopes.key = tasks.scope

-- name: turns
SELECT tenant, owner, tasks.id, turns.number, request
FROM turns CROSS JOIN tasks ON tasks.key = turns.task CROSS JOIN scopes ON scopes.key = tasks.scope

-- name: context_states
SELECT tenant, owner, context_id, name, updated_ms, value
FROM context_states CROSS JOIN scopes ON scopes.key = context_states.scope

-- name: receipts
SELECT tenant, owner, receipts.key, task_id, expires_ms, fingerprint, reply
FROM receipts CROSS JOIN scopes ON scopes.key = receipts.scope

-- name: configs
SELECT tenant, scopes.owner, tasks.id, configs.id, host, version, schemes, due_ms, claimed_until_ms, failing_ms, parked_ms, why,
    served_ms, (SELECT count(*) FROM debts WHERE config = configs.key), delivered, skipped, failed, attempts, rejections, over, wire
FROM configs CROSS JOIN tasks ON tasks.key = configs.task CROSS JOIN scopes ON scopes.key = tasks.scope

-- name: debts
SELECT tenant, scopes.owner, tasks.id, configs.id, debts.number, traceparent, tracestate
FROM debts CROSS JOIN configs ON configs.key = debts.config CROSS JOIN tasks ON tasks.key = configs.task
CROSS JOIN scopes ON scopes.key = tasks.scope

-- name: api_keys
SELECT id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms, change FROM api_keys

-- name: add_secrets
INSERT INTO secrets (name, value) VALUES (?, ?)

-- name: add_content_keys
INSERT INTO content_keys (id, turn) VALUES (?, ?)

-- name: add_scope
INSERT OR IGNORE INTO scopes (tenant, owner) VALUES (?, ?)

-- name: add_task
INSERT INTO tasks (scope, id, context_id, state, status_ms, number, shelved, log_bytes, head)
VALUES ((SELECT key FROM scopes WHERE tenant = ? AND owner = ?), ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_lease
INSERT INTO leases (task, epoch, replica, turns) VALUES (?, ?, ?, ?)

-- name: add_artifacts
INSERT INTO artifacts (task, number, wire) VALUES (?, ?, ?)

-- name: add_agent_state
INSERT INTO agent_states (task, wire) VALUES (?, ?)

-- name: add_events
INSERT INTO events (task, number, wire) VALUES ((SELECT key FROM tasks WHERE id = ?), ?, ?)

-- name: add_turns
INSERT INTO turns (task, number, request) VALUES ((SELECT key FROM tasks WHERE id = ?), ?, ?)

-- name: add_context_states
INSERT INTO context_states (scope, context_id, name, updated_ms, value)
VALUES ((SELECT key FROM scopes WHERE tenant = ? AND owner = ?), ?, ?, ?, ?)

-- name: add_receipts
INSERT INTO receipts (scope, key, task_id, expires_ms, fingerprint, reply)
VALUES ((SELECT key FROM scopes WHERE tenant = ? AND owner = ?), ?, ?, ?, ?, ?)

-- name: add_configs
INSERT INTO configs (owner, task, id, host, version, schemes, due_ms, claimed_until_ms, failing_ms, parked_ms, why, served_ms,
    delivered, skipped, failed, attempts, rejections, over, wire)
VALUES (?, (SELECT key FROM tasks WHERE id = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_debts
INSERT INTO debts (config, number, traceparent, tracestate)
VALUES ((SELECT key FROM configs WHERE task = (SELECT key FROM tasks WHERE id = ?) AND id = ?), ?, ?, ?)

-- name: add_api_keys
INSERT INTO api_keys (id, digest, owner, tenant, scopes, extended_card, name, made_ms, expires_ms, used_ms, revoked_ms, change)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: recount_turns
UPDATE leases SET turns = (SELECT count(*) FROM turns WHERE task = leases.task) WHERE turns > 0

-- name: count_tasks
INSERT INTO totals (scope, state, tasks, bytes) SELECT scope, state, count(*), sum(bytes) FROM task_sizes GROUP BY scope, state

-- name: count_contexts
INSERT INTO totals (scope, state, tasks, bytes) SELECT scope, 0, 0, sum(length(value)) FROM context_states GROUP BY scope
