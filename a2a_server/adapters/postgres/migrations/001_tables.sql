-- name: secrets
CREATE TABLE IF NOT EXISTS a2ad.secrets (
    name  text PRIMARY KEY,
    value bytea NOT NULL
)

-- name: content_keys
-- The keys that content has been sealed with. The one with the highest turn seals what is written now.
CREATE TABLE IF NOT EXISTS a2ad.content_keys (
    id   text COLLATE "C" PRIMARY KEY,
    turn integer NOT NULL
)

-- name: tasks
-- `slot` leads every key: 12 bits of the scope's hash, by which tasks can live in several databases. `scope` is the hash of
-- tenant and owner: indexes stay short, however long a name is.
CREATE TABLE IF NOT EXISTS a2ad.tasks (
    scope      uuid NOT NULL,
    status_ms  bigint NOT NULL,
    made_ns    bigint NOT NULL,  -- tasks of one process in the order of their creation
    slot       smallint NOT NULL,
    state      smallint NOT NULL,
    task       text COLLATE "C" NOT NULL,
    context_id text COLLATE "C" NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    head       bytea NOT NULL,
    PRIMARY KEY (slot, task)
)

-- name: tasks_by_id
-- For calls that know no scope, and so that an id is given once. Ids that name their slot will not need it.
CREATE UNIQUE INDEX IF NOT EXISTS tasks_by_id ON a2ad.tasks (task)

-- name: tasks_by_status
CREATE INDEX IF NOT EXISTS tasks_by_status ON a2ad.tasks (slot, scope, status_ms DESC, task DESC)

-- name: tasks_by_state
CREATE INDEX IF NOT EXISTS tasks_by_state ON a2ad.tasks (slot, scope, state, status_ms DESC, task DESC)

-- name: tasks_by_context
CREATE INDEX IF NOT EXISTS tasks_by_context ON a2ad.tasks (slot, scope, context_id, status_ms DESC, task DESC)

-- name: tasks_by_age
-- Who waits for input or authentication.
CREATE INDEX IF NOT EXISTS tasks_by_age ON a2ad.tasks (state, status_ms, task) WHERE state IN (6, 8)

-- name: fences
-- Who may write a task, and how far its log reaches: one narrow row per task, which every write updates in place.
CREATE TABLE IF NOT EXISTS a2ad.fences (
    scope     uuid NOT NULL,
    number    bigint NOT NULL,  -- the last entry
    shelved   bigint NOT NULL,  -- up to here no entry holds an artifact that the artifacts lack
    epoch     bigint NOT NULL,
    log_bytes bigint NOT NULL,
    counted   bigint NOT NULL,  -- how many bytes the totals have of head, log, artifacts and agent state
    grown     bigint NOT NULL,  -- how many of these came with the last change
    late      bigint NOT NULL,  -- bytes of entries that come into the totals with the next change
    slot      smallint NOT NULL,
    busy      boolean NOT NULL,  -- whether it has turns
    watched   boolean NOT NULL,  -- whether it has had push configs
    task      text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,  -- who claimed it last
    PRIMARY KEY (slot, task)
) WITH (fillfactor = 60)

-- name: fences_by_session
CREATE INDEX IF NOT EXISTS fences_by_session ON a2ad.fences (session) WHERE busy

-- name: events
CREATE TABLE IF NOT EXISTS a2ad.events (
    number integer NOT NULL,
    slot   smallint NOT NULL,
    kind   smallint NOT NULL,
    task   text COLLATE "C" NOT NULL,
    wire   bytea NOT NULL,
    PRIMARY KEY (slot, task, number)
)

-- name: artifacts
CREATE TABLE IF NOT EXISTS a2ad.artifacts (
    slot smallint NOT NULL,
    task text COLLATE "C" NOT NULL,
    wire bytea NOT NULL,
    PRIMARY KEY (slot, task)
)

-- name: agent_states
CREATE TABLE IF NOT EXISTS a2ad.agent_states (
    slot smallint NOT NULL,
    task text COLLATE "C" NOT NULL,
    wire bytea NOT NULL,
    PRIMARY KEY (slot, task)
)

-- name: turns
CREATE TABLE IF NOT EXISTS a2ad.turns (
    number  bigint NOT NULL,
    slot    smallint NOT NULL,
    task    text COLLATE "C" NOT NULL,
    request bytea NOT NULL,
    PRIMARY KEY (slot, task, number)
)

-- name: totals
-- How many tasks of each state a scope has, and how many bytes. With the state 0: bytes of push configs and of contexts.
-- A sum over parts: those who write at the same time have a part each.
CREATE TABLE IF NOT EXISTS a2ad.totals (
    scope  uuid NOT NULL,
    tasks  bigint NOT NULL,
    bytes  bigint NOT NULL,
    slot   smallint NOT NULL,
    state  smallint NOT NULL,
    part   smallint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    PRIMARY KEY (slot, scope, state, part)
) WITH (fillfactor = 50)

-- name: totals_by_owner
-- Of a very long name only the beginning, because an index has no room for more.
CREATE INDEX IF NOT EXISTS totals_by_owner ON a2ad.totals (left(owner, 500))

-- name: context_states
-- What the tasks of a context remember together. Names are an agent's, and may hold any character: they are bytes.
CREATE TABLE IF NOT EXISTS a2ad.context_states (
    scope      uuid NOT NULL,
    updated_ms bigint NOT NULL,
    grown      bigint NOT NULL,  -- by how many bytes the last write made it longer
    slot       smallint NOT NULL,
    context_id text COLLATE "C" NOT NULL,
    name       bytea NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    owner      text COLLATE "C" NOT NULL,
    value      bytea NOT NULL,
    PRIMARY KEY (slot, scope, context_id, name)
)

-- name: context_states_by_age
CREATE INDEX IF NOT EXISTS context_states_by_age ON a2ad.context_states (updated_ms)

-- name: receipts
CREATE TABLE IF NOT EXISTS a2ad.receipts (
    scope       uuid NOT NULL,
    expires_ms  bigint NOT NULL,
    slot        smallint NOT NULL,
    key         text COLLATE "C" NOT NULL,
    task        text COLLATE "C" NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    session     text NOT NULL,
    fingerprint bytea NOT NULL,
    reply       bytea NOT NULL,
    PRIMARY KEY (slot, scope, key)
)

-- name: receipts_by_end
CREATE INDEX IF NOT EXISTS receipts_by_end ON a2ad.receipts (expires_ms)

-- name: receipts_by_task
CREATE INDEX IF NOT EXISTS receipts_by_task ON a2ad.receipts (slot, task)

-- name: configs
-- Only a config's first debt can be due, so when, how often and for whom stand here and not with each debt.
CREATE TABLE IF NOT EXISTS a2ad.configs (
    due_ms           bigint,  -- NULL while nothing is owed, and while it is parked
    claimed_until_ms bigint,
    failing_ms       bigint,  -- the first failure since the last success
    parked_ms        bigint,
    served_ms        bigint NOT NULL DEFAULT 0,
    pending          bigint NOT NULL DEFAULT 0,  -- how many debts it has
    delivered        bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    failed           bigint NOT NULL DEFAULT 0,
    grown            bigint NOT NULL,  -- by how many bytes the last write made it longer
    attempts         integer NOT NULL DEFAULT 0,
    rejections       integer NOT NULL DEFAULT 0,
    slot             smallint NOT NULL,
    over             boolean NOT NULL,  -- the task is finished, and nothing is owed
    task             text COLLATE "C" NOT NULL,
    id               text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    owner            text COLLATE "C" NOT NULL,
    host             text COLLATE "C" NOT NULL,
    version          text NOT NULL,
    why              text NOT NULL DEFAULT '',
    schemes          text[] NOT NULL,  -- all that the client offered
    wire             bytea NOT NULL,
    PRIMARY KEY (slot, task, id)
) WITH (fillfactor = 80)

-- name: configs_by_due
CREATE INDEX IF NOT EXISTS configs_by_due ON a2ad.configs (due_ms) WHERE due_ms IS NOT NULL

-- name: configs_by_lane
-- Claims go by owner and host, so that no owner's deliveries stand in the way of another's.
CREATE INDEX IF NOT EXISTS configs_by_lane ON a2ad.configs (owner, host, due_ms) WHERE due_ms IS NOT NULL

-- name: configs_by_site
CREATE INDEX IF NOT EXISTS configs_by_site ON a2ad.configs (owner, host) WHERE NOT over AND parked_ms IS NULL

-- name: configs_by_parking
CREATE INDEX IF NOT EXISTS configs_by_parking ON a2ad.configs (parked_ms) WHERE parked_ms IS NOT NULL

-- name: debts
CREATE TABLE IF NOT EXISTS a2ad.debts (
    number      bigint NOT NULL,
    slot        smallint NOT NULL,
    task        text COLLATE "C" NOT NULL,
    config      text COLLATE "C" NOT NULL,
    traceparent text,  -- the trace of the call that caused the event; every attempt at its webhook tells the same
    tracestate  text,
    PRIMARY KEY (slot, task, config, number)
)

-- name: api_keys
-- Keys that operators have made. `change` counts what servers must know: making and revoking, but no uses.
CREATE TABLE IF NOT EXISTS a2ad.api_keys (
    id            text COLLATE "C" PRIMARY KEY,
    digest        bytea NOT NULL UNIQUE,
    owner         text COLLATE "C" NOT NULL,
    tenant        text COLLATE "C" NOT NULL,
    scopes        text[],
    extended_card boolean NOT NULL,
    name          text NOT NULL,
    made_ms       bigint NOT NULL,
    expires_ms    bigint,
    used_ms       bigint,
    revoked_ms    bigint,
    change        bigint NOT NULL UNIQUE
)

-- name: leftovers
-- Logs and debts of tasks that are gone for everybody, and that were too large to be removed at once.
CREATE TABLE IF NOT EXISTS a2ad.leftovers (
    slot smallint NOT NULL,
    task text COLLATE "C" NOT NULL,
    PRIMARY KEY (slot, task)
)
