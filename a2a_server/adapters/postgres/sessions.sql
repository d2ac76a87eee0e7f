-- `clock_timestamp()` is looked at when a row is, also after waiting for somebody else's change of it.

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: beat
-- Not for a server that is too old for the tables: whoever contracts them holds this row while it looks for sessions.
INSERT INTO a2ad.sessions (id, until, schema, program, begun, seals_with, address, knows)
SELECT $1, clock_timestamp() + make_interval(secs => $2), $3, $4, clock_timestamp(), $5, $6, $7
FROM a2ad.versions WHERE one AND oldest <= $3 FOR SHARE
ON CONFLICT (id) DO UPDATE SET until = excluded.until WHERE sessions.until > clock_timestamp()
RETURNING 1

-- name: note
-- In a database that is not the home: for commands, which leave alone what a server works on.
INSERT INTO a2ad.sessions (id, until, schema, program, begun, seals_with)
VALUES ($1, clock_timestamp() + make_interval(secs => $2), $3, $4, clock_timestamp(), $5)
ON CONFLICT (id) DO UPDATE SET until = excluded.until

-- name: lives
SELECT 1 FROM a2ad.sessions WHERE id = $1 AND until > clock_timestamp()

-- name: addresses
SELECT DISTINCT address FROM a2ad.sessions WHERE until > clock_timestamp() AND address <> ''

-- name: end
WITH unread AS (
    DELETE FROM a2ad.letters WHERE session = $1
)
INSERT INTO a2ad.sessions (id, until) VALUES ($1, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET until = least(sessions.until, excluded.until)

-- name: unread
-- Letters to sessions that are over. One that is being written at this moment is removed the next time.
DELETE FROM a2ad.letters WHERE session IN (
    SELECT DISTINCT session FROM a2ad.letters
    EXCEPT SELECT id FROM a2ad.sessions WHERE until > clock_timestamp())

-- name: forget
-- Sessions that have been over for a day, and have no turns. Nobody waits for one of them any more.
DELETE FROM a2ad.sessions WHERE until < clock_timestamp() - interval '1 day'
AND NOT EXISTS (SELECT 1 FROM a2ad.fences WHERE busy AND session = sessions.id)

-- name: numbers
SELECT tasks.task, number FROM a2ad.tasks JOIN a2ad.fences USING (slot, task) WHERE tasks.task = ANY ($1::text[])

-- name: post
INSERT INTO a2ad.letters (session, posted, id, body)
SELECT id, clock_timestamp(), $2, $3 FROM a2ad.sessions WHERE id = $1 AND until > clock_timestamp()

-- name: collect
DELETE FROM a2ad.letters WHERE (session, posted, id) IN (
    SELECT session, posted, id FROM a2ad.letters WHERE session = $1 ORDER BY posted LIMIT $2 FOR UPDATE SKIP LOCKED)
RETURNING posted, id, body

-- name: holders
-- Sessions, but one, that have open turns. The index is skipped through, so that this costs little in each second.
WITH RECURSIVE holders AS (
    (SELECT session FROM a2ad.fences WHERE busy ORDER BY session LIMIT 1)
    UNION ALL
    SELECT (SELECT session FROM a2ad.fences WHERE busy AND session > holders.session ORDER BY session LIMIT 1)
    FROM holders WHERE holders.session IS NOT NULL
)
SELECT session FROM holders WHERE session <> $1

-- name: not_alive
SELECT id AS session FROM unnest($1::text[]) AS holders (id)
WHERE NOT EXISTS (SELECT 1 FROM a2ad.sessions WHERE sessions.id = holders.id AND until > clock_timestamp())

-- name: settled
-- Waits for a heartbeat that is just being written, and that may make a session longer. What is over here stays over.
SELECT id, until <= clock_timestamp() AS over FROM a2ad.sessions WHERE id = ANY ($1::text[]) FOR SHARE
