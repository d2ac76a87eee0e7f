-- name: room
CREATE SCHEMA IF NOT EXISTS a2ad

-- name: versions
-- `version` is the newest that has brought the tables up to date; servers older than `oldest` cannot use them any more.
CREATE TABLE IF NOT EXISTS a2ad.versions (one boolean PRIMARY KEY CHECK (one), version integer NOT NULL, oldest integer NOT NULL)

-- name: missing
-- What has to be made first. Who may not make the schema can still use one that somebody else has made.
SELECT name FROM (VALUES ('room', to_regnamespace('a2ad')::oid), ('versions', to_regclass('a2ad.versions')::oid)) AS first (name, oid)
WHERE oid IS NULL

-- name: version
SELECT version, oldest FROM a2ad.versions

-- name: no_long_waits
SELECT set_config('lock_timeout', '3s', true)

-- name: hold_version
SELECT version, oldest FROM a2ad.versions FOR UPDATE

-- name: older
SELECT id, schema FROM a2ad.sessions WHERE until > clock_timestamp() AND schema < $1 ORDER BY id

-- name: raise
INSERT INTO a2ad.versions (one, version, oldest) VALUES (true, $1, $2)
ON CONFLICT (one) DO UPDATE SET version = greatest(versions.version, excluded.version),
    oldest = greatest(versions.oldest, excluded.oldest)

-- name: alone
-- Waits for everybody who migrates at this moment.
SELECT pg_advisory_xact_lock(27763147, 1)

-- name: secret_add
INSERT INTO a2ad.secrets (name, value) VALUES ('cursor', $1) ON CONFLICT DO NOTHING

-- name: secret
SELECT value FROM a2ad.secrets WHERE name = 'cursor'

-- name: keys_used
-- The keys of the content. The one that seals comes first.
SELECT id FROM a2ad.content_keys ORDER BY turn DESC

-- name: seal_with
INSERT INTO a2ad.content_keys (id, turn) SELECT $1, coalesce(max(turn), 0) + 1 FROM a2ad.content_keys
ON CONFLICT (id) DO UPDATE SET turn = excluded.turn
