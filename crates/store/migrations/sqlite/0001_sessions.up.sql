-- Sessions with their ledger, the event feed, repos and messages. Times are milliseconds since the epoch, UTC.

CREATE TABLE repos (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    path TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

-- AUTOINCREMENT: a key never comes back, so nothing old can turn up under a new session.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    harness TEXT NOT NULL,
    channel TEXT NOT NULL CHECK (channel IN ('terminal', 'acp')),
    title TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('created', 'running', 'completed', 'failed', 'killed', 'orphaned')),
    exit_code INTEGER,
    pid INTEGER,
    started_ticks INTEGER,
    boot_id TEXT,
    project_root TEXT NOT NULL,
    cwd TEXT NOT NULL,
    repo_id TEXT REFERENCES repos (id),
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    launching_at INTEGER,
    end_intent TEXT CHECK (end_intent IN ('finish', 'idle_timeout')),
    launch TEXT NOT NULL,
    metadata TEXT NOT NULL,
    -- For the indexes: SQLite answers nothing from an index alone that has an expression in it.
    archived INTEGER NOT NULL CHECK (archived = (archived_at IS NOT NULL))
) STRICT;

-- Every list is newest first by (created_at, key). What a filter fixes stands before the time, so that each
-- list is one ordered walk, or a merge of a few; what it may also look at stands behind the key.
CREATE INDEX sessions_newest ON sessions (created_at);
CREATE INDEX sessions_current ON sessions (archived, created_at);
CREATE INDEX sessions_by_channel ON sessions (channel, archived, created_at);
CREATE INDEX sessions_by_state ON sessions (state, archived, created_at, key, harness, channel);
CREATE INDEX sessions_by_harness ON sessions (harness, archived, created_at, key, channel);
CREATE INDEX sessions_by_repo ON sessions (repo_id, archived, created_at, key) WHERE repo_id IS NOT NULL;
-- What a starting daemon must look at; small however many sessions there are.
CREATE INDEX sessions_unsettled ON sessions (key)
    WHERE state = 'running' OR (state = 'created' AND launching_at IS NOT NULL) OR (state = 'killed' AND exit_code IS NULL);

-- How many sessions there are of each sort: a list's total is a sum over a few rows.
CREATE TABLE session_counts (
    archived INTEGER NOT NULL,
    state TEXT NOT NULL,
    harness TEXT NOT NULL,
    channel TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (archived, state, harness, channel, repo_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER sessions_count_in AFTER INSERT ON sessions BEGIN
    INSERT INTO session_counts
    VALUES (NEW.archived, NEW.state, NEW.harness, NEW.channel, coalesce(NEW.repo_id, ''), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

CREATE TRIGGER sessions_count_out AFTER DELETE ON sessions BEGIN
    UPDATE session_counts SET count = count - 1
    WHERE archived = OLD.archived AND state = OLD.state AND harness = OLD.harness
        AND channel = OLD.channel AND repo_id = coalesce(OLD.repo_id, '');
END;

CREATE TRIGGER sessions_count_over AFTER UPDATE ON sessions
WHEN NEW.state <> OLD.state OR NEW.archived <> OLD.archived
    OR NEW.harness <> OLD.harness OR NEW.channel <> OLD.channel OR NEW.repo_id IS NOT OLD.repo_id
BEGIN
    UPDATE session_counts SET count = count - 1
    WHERE archived = OLD.archived AND state = OLD.state AND harness = OLD.harness
        AND channel = OLD.channel AND repo_id = coalesce(OLD.repo_id, '');
    INSERT INTO session_counts
    VALUES (NEW.archived, NEW.state, NEW.harness, NEW.channel, coalesce(NEW.repo_id, ''), 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

-- Clustered by session: reading a ledger is one range, and so is deleting it.
CREATE TABLE entries (
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    seq INTEGER NOT NULL CHECK (seq > 0),
    kind TEXT NOT NULL
        CHECK (kind IN ('start', 'output', 'input', 'message', 'resize', 'kill', 'exit', 'truncated', 'note')),
    at INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    data BLOB,
    detail TEXT,
    PRIMARY KEY (session_key, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE keyframes (
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    offset INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    cols INTEGER NOT NULL,
    screen BLOB NOT NULL,
    PRIMARY KEY (session_key, offset)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT: the number goes on where it was, even when every event has expired.
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_time ON events (at);

CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    role TEXT NOT NULL CHECK (role IN ('user', 'agent', 'system')),
    content TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE INDEX messages_by_session ON messages (session_key, at);
CREATE INDEX messages_by_time ON messages (at);

-- For programs that know the AGENT schema.
CREATE VIEW Repo AS
SELECT id, name, path, strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS createdAt
FROM repos;

CREATE VIEW AgentSession AS
SELECT
    id,
    repo_id AS repoId,
    CASE state
        WHEN 'created' THEN 'active'
        WHEN 'running' THEN 'active'
        WHEN 'completed' THEN 'completed'
        WHEN 'killed' THEN 'cancelled'
        ELSE 'error'
    END AS status,
    strftime('%Y-%m-%dT%H:%M:%fZ', created_at / 1000.0, 'unixepoch') AS createdAt,
    strftime('%Y-%m-%dT%H:%M:%fZ', updated_at / 1000.0, 'unixepoch') AS updatedAt
FROM sessions
WHERE repo_id IS NOT NULL;

CREATE VIEW AgentMessage AS
SELECT
    messages.id,
    sessions.id AS sessionId,
    messages.role,
    messages.content,
    strftime('%Y-%m-%dT%H:%M:%fZ', messages.at / 1000.0, 'unixepoch') AS timestamp
FROM messages JOIN sessions ON sessions.key = messages.session_key
WHERE sessions.repo_id IS NOT NULL;
