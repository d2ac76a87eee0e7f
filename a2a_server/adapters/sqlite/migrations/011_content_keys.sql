-- Under which keys content may be sealed, by their ids; '' stands for content that is not sealed. The one with the
-- greatest turn seals what is written now.
CREATE TABLE content_keys (
    id   TEXT PRIMARY KEY,
    turn INTEGER NOT NULL
) WITHOUT ROWID;

-- Nothing was sealed before this.
INSERT INTO content_keys SELECT '', 1
WHERE EXISTS (SELECT 1 FROM tasks) OR EXISTS (SELECT 1 FROM receipts) OR EXISTS (SELECT 1 FROM context_states);
