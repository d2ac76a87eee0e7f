-- Keys that operators have made. `change` counts what servers must know: making and revoking, but no uses.
CREATE TABLE api_keys (
    id            TEXT PRIMARY KEY,
    digest        BLOB NOT NULL UNIQUE,
    owner         TEXT NOT NULL,
    tenant        TEXT NOT NULL,
    scopes        TEXT,
    extended_card INTEGER NOT NULL,
    name          TEXT NOT NULL,
    made_ms       INTEGER NOT NULL,
    expires_ms    INTEGER,
    used_ms       INTEGER,
    revoked_ms    INTEGER,
    change        INTEGER NOT NULL UNIQUE
) WITHOUT ROWID;
