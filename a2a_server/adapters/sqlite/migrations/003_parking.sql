-- Claims go by host, so that those of one host never stand in the way of another's.
ALTER TABLE configs ADD COLUMN host TEXT NOT NULL DEFAULT '?';
ALTER TABLE configs ADD COLUMN failing_ms INTEGER;  -- the first failure since the last success
ALTER TABLE configs ADD COLUMN parked_ms INTEGER;  -- nothing is due while it is set
ALTER TABLE configs ADD COLUMN why TEXT NOT NULL DEFAULT '';
ALTER TABLE configs ADD COLUMN delivered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE configs ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;

CREATE INDEX configs_by_host ON configs (host, due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX configs_by_parking ON configs (parked_ms) WHERE parked_ms IS NOT NULL;
