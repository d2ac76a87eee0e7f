-- name: put
-- One that is replaced is parked no more, and the claim on it is void: the next attempt goes to the new address.
INSERT INTO configs (task, id, wire, version, schemes, host, owner, over)
SELECT key, ?, ?, ?, ?, ?, (SELECT owner FROM scopes WHERE key = scope), ? AND state IN (3, 4, 5, 7)
FROM tasks WHERE key = ?
ON CONFLICT (task, id) DO UPDATE SET wire = excluded.wire, version = excluded.version, schemes = excluded.schemes,
    host = excluded.host, attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '', claimed_until_ms = NULL,
    due_ms = CASE WHEN EXISTS (SELECT 1 FROM debts WHERE config = configs.key) THEN served_ms END

-- name: get
SELECT id, wire, version, schemes FROM configs WHERE id = ? AND task =
    (SELECT key FROM tasks WHERE id = ? AND scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?))

-- name: configs
SELECT id, wire, version, schemes FROM configs WHERE task = ? AND id > ? ORDER BY id LIMIT ?

-- name: forgive
DELETE FROM debts WHERE config = (SELECT key FROM configs WHERE task = ? AND id = ?)

-- name: delete
DELETE FROM configs WHERE task = ? AND id = ?

-- name: creditors
SELECT key, due_ms, parked_ms FROM configs WHERE task = ?

-- name: owe
INSERT INTO debts (config, number, traceparent, tracestate) VALUES (?, ?, ?, ?)

-- name: due
-- The longest unserved goes first, so that nobody starves when there are more configs than hands.
UPDATE configs SET due_ms = served_ms WHERE key = ?

-- name: next
SELECT min(due_ms) FROM configs INDEXED BY configs_by_due WHERE due_ms IS NOT NULL

-- name: count
SELECT count(*) FROM (SELECT 1 FROM configs INDEXED BY configs_by_site
    WHERE owner = ? AND host = ? AND over = 0 AND parked_ms IS NULL LIMIT ?)

-- name: count_all
SELECT count(*) FROM (SELECT 1 FROM configs INDEXED BY configs_by_site
    WHERE owner = ? AND over = 0 AND parked_ms IS NULL LIMIT ?)

-- name: count_hosts
-- From each host to the next in the index, however many configs each has.
WITH RECURSIVE hosts (host) AS (
    SELECT (SELECT min(host) FROM configs INDEXED BY configs_by_site
            WHERE owner = :owner AND over = 0 AND parked_ms IS NULL)
    UNION ALL
    SELECT (SELECT min(configs.host) FROM configs INDEXED BY configs_by_site
            WHERE owner = :owner AND configs.host > hosts.host AND over = 0 AND parked_ms IS NULL)
    FROM hosts WHERE host IS NOT NULL LIMIT :limit)
SELECT count(host) FROM hosts

-- name: next_lane
SELECT owner, host, due_ms FROM configs INDEXED BY configs_by_lane
WHERE (owner, host) > (?, ?) AND due_ms IS NOT NULL ORDER BY owner, host, due_ms LIMIT 1

-- name: claimable
SELECT configs.key, configs.id, configs.wire, configs.version, configs.schemes, configs.attempts, configs.rejections,
       configs.failing_ms, tasks.id, scopes.tenant, scopes.owner, debts.number, debts.traceparent, debts.tracestate
FROM configs INDEXED BY configs_by_lane CROSS JOIN tasks ON tasks.key = configs.task
CROSS JOIN scopes ON scopes.key = tasks.scope
CROSS JOIN debts ON debts.config = configs.key AND debts.number = (SELECT min(number) FROM debts WHERE config = configs.key)
WHERE configs.owner = ? AND configs.host = ? AND configs.due_ms <= ? ORDER BY configs.due_ms LIMIT ?

-- name: claim
UPDATE configs SET due_ms = :until_ms, claimed_until_ms = :until_ms, served_ms = :now_ms WHERE key = :config

-- name: claimed
SELECT key, (SELECT min(number) FROM debts WHERE config = configs.key) FROM configs
WHERE task = (SELECT key FROM tasks WHERE id = ?) AND id = ? AND claimed_until_ms = ?

-- name: put_off
UPDATE configs SET due_ms = :retry_ms, claimed_until_ms = NULL, attempts = attempts + :tried, failed = failed + :tried,
    rejections = rejections + :rejected,
    failing_ms = CASE WHEN :tried THEN coalesce(failing_ms, :now_ms) ELSE failing_ms END,
    parked_ms = CASE WHEN :retry_ms IS NULL THEN :now_ms END, why = CASE WHEN :tried THEN :why ELSE why END
WHERE key = :config

-- name: pay
DELETE FROM debts WHERE config = ? AND number = ?

-- name: paid
-- Or skipped.
UPDATE configs SET claimed_until_ms = NULL, attempts = 0, rejections = 0, failing_ms = NULL, why = :why,
    delivered = delivered + 1 - :skipped, skipped = skipped + :skipped, failed = failed + :skipped,
    due_ms = CASE WHEN EXISTS (SELECT 1 FROM debts WHERE config = configs.key) THEN served_ms END
WHERE key = :config

-- name: finish
-- Apart from the others, because it changes an index.
UPDATE configs SET over = 1
WHERE key = ? AND due_ms IS NULL AND (SELECT state IN (3, 4, 5, 7) FROM tasks WHERE key = configs.task)

-- name: unclaim
-- Whoever claimed them is gone: nobody else uses the file.
UPDATE configs INDEXED BY configs_by_due SET due_ms = served_ms, claimed_until_ms = NULL
WHERE due_ms > ? AND claimed_until_ms IS NOT NULL

-- name: set_back
-- Once per start, and the only query that looks at all configs: those that were served in the future have a new clock.
UPDATE configs SET served_ms = :now_ms, due_ms = min(due_ms, :now_ms) WHERE served_ms > :now_ms

-- name: keys_due
SELECT key FROM configs INDEXED BY configs_by_due WHERE due_ms > ? ORDER BY due_ms LIMIT ?

-- name: keys_parked
SELECT key FROM configs INDEXED BY configs_by_parking WHERE parked_ms > ? ORDER BY parked_ms LIMIT ?

-- name: keys_of_task
SELECT key FROM configs WHERE task = (SELECT key FROM tasks WHERE id = ?) ORDER BY id LIMIT ?

-- name: key_of_config
SELECT key FROM configs WHERE task = (SELECT key FROM tasks WHERE id = ?) AND id = ? LIMIT ?

-- name: account
SELECT scopes.tenant, scopes.owner, tasks.id, configs.id, configs.wire, configs.version,
       (SELECT count(*) FROM debts WHERE config = configs.key), (SELECT min(number) FROM debts WHERE config = configs.key),
       configs.delivered, configs.skipped, configs.failed, configs.attempts, configs.due_ms, configs.claimed_until_ms IS NOT NULL,
       configs.failing_ms, configs.parked_ms, configs.why
FROM configs CROSS JOIN tasks ON tasks.key = configs.task CROSS JOIN scopes ON scopes.key = tasks.scope
WHERE configs.key = ?

-- name: retry
UPDATE configs SET attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '',
    due_ms = CASE WHEN claimed_until_ms IS NOT NULL THEN due_ms
                  WHEN EXISTS (SELECT 1 FROM debts WHERE config = configs.key) THEN served_ms END
WHERE key = ?

-- name: drop
DELETE FROM debts WHERE config = ?

-- name: dropped
UPDATE configs SET attempts = 0, rejections = 0, failing_ms = NULL, parked_ms = NULL, why = '', claimed_until_ms = NULL, due_ms = NULL
WHERE key = ?
