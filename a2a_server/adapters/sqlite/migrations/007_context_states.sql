-- What the tasks of a context remember together. One row per value, so that a task rewrites only what it has changed.
CREATE TABLE context_states (
    scope      INTEGER NOT NULL,
    context_id TEXT NOT NULL,
    name       TEXT NOT NULL,
    value      BLOB NOT NULL,
    updated_ms INTEGER NOT NULL,
    UNIQUE (scope, context_id, name)
);
