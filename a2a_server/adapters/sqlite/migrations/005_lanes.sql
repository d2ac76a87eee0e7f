-- Claims go by owner and host, so that no owner's deliveries stand in the way of another's.
ALTER TABLE configs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE configs ADD COLUMN over INTEGER NOT NULL DEFAULT 0;  -- the task is finished, and nothing is owed
UPDATE configs SET
    owner = (SELECT scopes.owner FROM tasks JOIN scopes ON scopes.key = tasks.scope WHERE tasks.key = configs.task),
    over = due_ms IS NULL AND parked_ms IS NULL AND (SELECT state IN (3, 4, 5, 7) FROM tasks WHERE key = configs.task);

DROP INDEX configs_by_host;
CREATE INDEX configs_by_lane ON configs (owner, host, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX configs_by_site ON configs (owner, host) WHERE over = 0 AND parked_ms IS NULL;
