-- name: tables
-- `reltuples` is what the last VACUUM or ANALYZE has found, -1 if there was none.
SELECT relname AS name, reltuples::bigint AS guess, pg_total_relation_size(oid) AS bytes
FROM pg_class WHERE relnamespace = to_regnamespace('a2ad') AND relkind IN ('r', 'p') ORDER BY relname

-- name: servers
-- As JSON, because tables of an older version have fewer columns.
SELECT id, to_jsonb(sessions) ->> 'schema' AS schema, to_jsonb(sessions) ->> 'program' AS program,
    extract(epoch FROM clock_timestamp() - (to_jsonb(sessions) ->> 'begun')::timestamptz)::float8 AS seconds
FROM a2ad.sessions WHERE until > clock_timestamp() ORDER BY seconds DESC NULLS LAST, id
