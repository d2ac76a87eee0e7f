-- Big and rarely read columns stand last or in tables of their own: SQLite reads a row from its front and stops where
-- it may, and rewrites all of it when one column changes.

CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- An integer in place of (tenant, owner) keeps the indexes of tasks short.
CREATE TABLE scopes (
    key    INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    owner  TEXT NOT NULL,
    UNIQUE (tenant, owner)
);

-- tasks

CREATE TABLE tasks (
    key        INTEGER PRIMARY KEY,
    scope      INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    context_id TEXT NOT NULL,
    state      INTEGER NOT NULL,
    status_ms  INTEGER NOT NULL,
    number     INTEGER NOT NULL,  -- the last entry when this row was written; chunks do not touch the row
    shelved    INTEGER NOT NULL,  -- up to here no entry holds an artifact that the artifacts lack
    head       BLOB NOT NULL
);

CREATE INDEX tasks_by_status ON tasks (scope, status_ms DESC, id DESC);
CREATE INDEX tasks_by_state ON tasks (scope, state, status_ms DESC, id DESC);
CREATE INDEX tasks_by_context ON tasks (scope, context_id, status_ms DESC, id DESC, state);
CREATE INDEX tasks_by_age ON tasks (state, status_ms, id) WHERE state IN (6, 8);  -- who waits for input or authentication

CREATE TABLE artifacts (
    task   INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,  -- the last entry they include
    wire   BLOB NOT NULL
);

CREATE TABLE agent_states (
    task INTEGER PRIMARY KEY,
    wire BLOB NOT NULL
);

-- A rowid table with an index: appending to many logs at once it is twice as fast as WITHOUT ROWID, which would move
-- whole events about when its pages split.
CREATE TABLE events (
    task   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    wire   BLOB NOT NULL,
    UNIQUE (task, number)
);

-- How many tasks of each state a scope has, so that totals need no counting. Not kept by triggers: one on INSERT made
-- creating a task three times as expensive.
CREATE TABLE totals (
    scope INTEGER NOT NULL,
    state INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    PRIMARY KEY (scope, state)
) WITHOUT ROWID;

-- turns and leases

-- Who may write a task: one row per task, apart from it because heartbeats rewrite it.
CREATE TABLE leases (
    task     INTEGER PRIMARY KEY,
    epoch    INTEGER NOT NULL DEFAULT 0,
    replica  TEXT NOT NULL DEFAULT '',
    until_ms INTEGER NOT NULL DEFAULT 0,
    turns    INTEGER NOT NULL DEFAULT 0,  -- how many are running or waiting
    cancel   BLOB  -- the metadata of a wish to cancel
);

CREATE INDEX leases_by_end ON leases (until_ms) WHERE turns > 0;

CREATE TABLE turns (
    task    INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    request BLOB NOT NULL,
    PRIMARY KEY (task, number)
) WITHOUT ROWID;

-- receipts

CREATE TABLE receipts (
    scope       INTEGER NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    task_id     TEXT NOT NULL,
    expires_ms  INTEGER NOT NULL,
    reply       BLOB NOT NULL,
    PRIMARY KEY (scope, key)
) WITHOUT ROWID;

-- webhooks

-- Only a config's first debt can be due, so when, how often and for whom stand here and not with each debt.
CREATE TABLE configs (
    key              INTEGER PRIMARY KEY,
    task             INTEGER NOT NULL,
    id               TEXT NOT NULL,
    due_ms           INTEGER,  -- NULL while nothing is owed
    claimed_until_ms INTEGER,
    served_ms        INTEGER NOT NULL DEFAULT 0,
    attempts         INTEGER NOT NULL DEFAULT 0,
    wire             BLOB NOT NULL,
    UNIQUE (task, id)
);

CREATE INDEX configs_by_due ON configs (due_ms) WHERE due_ms IS NOT NULL;

CREATE TABLE debts (
    config INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (config, number)
) WITHOUT ROWID;
