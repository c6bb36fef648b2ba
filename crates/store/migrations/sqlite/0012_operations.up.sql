-- Operations: work that a request starts and that continues without it.

CREATE TABLE operations (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    subject TEXT,
    done INTEGER NOT NULL,
    total INTEGER,
    message TEXT NOT NULL,
    -- JSON, as clients read it.
    result TEXT,
    error_code TEXT,
    error_message TEXT,
    error_details TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE INDEX operations_by_age ON operations (created_at);
-- The same request about the same record runs once.
CREATE UNIQUE INDEX operations_one_running ON operations (subject, kind) WHERE state = 'running' AND subject IS NOT NULL;
