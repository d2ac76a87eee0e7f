-- name: shard
-- One row: which slots this database has, and whose it is. Its `id` tells it from all others.
CREATE TABLE IF NOT EXISTS a2ad.shard (
    version   bigint NOT NULL,  -- of this row; every change raises it
    id        uuid NOT NULL,
    home      uuid,  -- the store's first database; NULL while this one is a store of its own
    one       boolean PRIMARY KEY CHECK (one),
    slots     bytea NOT NULL,  -- a bit for each
    members   uuid[] NOT NULL DEFAULT '{}',  -- in the home: all databases of the store
    moving    bytea,  -- the slots on their way to or from here, and from here they may be gone already
    moving_to uuid,
    mover     uuid  -- the command that moves them; another one may take that over
)

-- name: shard_row
-- A database has all slots until others join it.
INSERT INTO a2ad.shard (one, version, id, slots) VALUES (true, 1, gen_random_uuid(), decode(repeat('ff', 512), 'hex'))
ON CONFLICT DO NOTHING

-- name: leaving
-- Rows of slots that have left, until they have arrived. No server looks here.
CREATE TABLE IF NOT EXISTS a2ad.leaving (
    slot    smallint NOT NULL,
    kind    text NOT NULL,  -- the table
    content jsonb NOT NULL
)

-- name: leaving_by_slot
CREATE INDEX IF NOT EXISTS leaving_by_slot ON a2ad.leaving (slot)

-- name: sessions_know
-- The databases that a server knows. Slots move to those only that all servers know.
ALTER TABLE a2ad.sessions ADD COLUMN IF NOT EXISTS knows uuid[] NOT NULL DEFAULT '{}'
