-- name: address
-- Where the other servers reach this one; empty if they need not.
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS address text COLLATE "C" NOT NULL DEFAULT ''

-- name: sessions_address
CREATE INDEX IF NOT EXISTS sessions_address ON a2ad.sessions (address) WHERE address <> ''
