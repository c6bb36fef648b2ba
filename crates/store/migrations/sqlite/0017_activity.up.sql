-- What the agent of a live session is doing, and the observations that decided it.

ALTER TABLE sessions ADD COLUMN activity TEXT NOT NULL DEFAULT 'unknown'
    CHECK (activity IN ('working', 'permission', 'question', 'idle', 'limited', 'unknown'));
ALTER TABLE sessions ADD COLUMN activity_since INTEGER;
ALTER TABLE sessions ADD COLUMN activity_source TEXT
    CHECK (activity_source IN ('protocol', 'hook', 'signal', 'screen', 'process'));
ALTER TABLE sessions ADD COLUMN activity_detail TEXT;
ALTER TABLE sessions ADD COLUMN unseen INTEGER NOT NULL DEFAULT 0;

-- The newest observations of each session; the store deletes older ones.
CREATE TABLE observations (
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL,
    fact TEXT NOT NULL,
    detail TEXT,
    verdict TEXT NOT NULL,
    PRIMARY KEY (session_key, number)
) STRICT, WITHOUT ROWID;
