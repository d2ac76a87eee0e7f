-- name: task
SELECT key FROM tasks WHERE id = ? AND scope = (SELECT key FROM scopes WHERE tenant = ? AND owner = ?)

-- name: exists
SELECT 1 FROM tasks WHERE id = ?

-- name: scope
SELECT key FROM scopes WHERE tenant = ? AND owner = ?

-- name: scope_add
INSERT INTO scopes (tenant, owner) VALUES (?, ?)
