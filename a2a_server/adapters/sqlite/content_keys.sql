-- name: used
-- The one that seals comes first.
SELECT id FROM content_keys ORDER BY turn DESC

-- name: seal_with
INSERT INTO content_keys (id, turn) VALUES (?, (SELECT coalesce(max(turn), 0) + 1 FROM content_keys))
ON CONFLICT (id) DO UPDATE SET turn = excluded.turn

-- name: turn
SELECT coalesce(max(turn), 0) FROM content_keys

-- name: forget_others
-- Unless a server has begun to seal with another key meanwhile.
DELETE FROM content_keys WHERE id <> ? AND (SELECT max(turn) FROM content_keys) = ?
