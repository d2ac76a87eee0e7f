-- name: sessions
-- Servers that share the database. `until` is by the database's own clock.
CREATE TABLE IF NOT EXISTS a2ad.sessions (
    until timestamptz NOT NULL,
    id    text COLLATE "C" PRIMARY KEY
) WITH (fillfactor = 50)

-- name: letters
-- From session to session; whoever collects one deletes it.
CREATE TABLE IF NOT EXISTS a2ad.letters (
    posted  timestamptz NOT NULL,
    session text COLLATE "C" NOT NULL,
    id      text COLLATE "C" NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (session, posted, id)
)
