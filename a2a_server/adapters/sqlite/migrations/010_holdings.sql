-- How much of an owner is stored. A task's bytes are counted in the row of its state, and those of contexts in a row with
-- the state 0. Chunks do not touch the task's row, and are counted when it is written next.
ALTER TABLE tasks ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 0;  -- of the entries up to `number`
ALTER TABLE totals ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX scopes_by_owner ON scopes (owner);

CREATE VIEW task_sizes AS
SELECT key, scope, state, length(head) + log_bytes
    + coalesce((SELECT length(wire) FROM artifacts WHERE task = tasks.key), 0)
    + coalesce((SELECT length(wire) FROM agent_states WHERE task = tasks.key), 0)
    + coalesce((SELECT sum(length(wire)) FROM configs WHERE task = tasks.key), 0) AS bytes
FROM tasks;

UPDATE tasks SET log_bytes = coalesce(
    (SELECT sum(length(wire)) FROM events WHERE task = tasks.key AND number <= tasks.number), 0)
WHERE scope <> 0;
UPDATE totals SET bytes = coalesce(
    (SELECT sum(bytes) FROM task_sizes WHERE scope = totals.scope AND state = totals.state), 0);
INSERT INTO totals (scope, state, tasks, bytes)
SELECT scope, 0, 0, sum(length(value)) FROM context_states WHERE true GROUP BY scope
ON CONFLICT (scope, state) DO UPDATE SET bytes = bytes + excluded.bytes;
