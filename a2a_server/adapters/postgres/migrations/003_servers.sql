-- What a server says of itself with each heartbeat. Servers of version 2 leave these columns out.
-- name: servers_schema
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS schema integer NOT NULL DEFAULT 2

-- name: servers_program
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS program text NOT NULL DEFAULT ''

-- name: servers_begun
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS begun timestamptz

-- name: servers_seals_with
-- The id of the key that it seals content with; '' if it seals nothing, NULL if it does not say.
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS seals_with text
