-- Conversations over ACP: messages that grow while they are written, where the daemon stands in the agent's stream,
-- lines on their way to it, and its requests for permission. Repos may be taken off the list.

ALTER TABLE repos ADD COLUMN removed_at INTEGER;

DROP VIEW AgentMessage;
DROP VIEW AgentSession;
DROP TABLE messages;

CREATE TABLE messages (
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    -- Grows with every change; what changes gets a new one.
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    -- The message that this is, or is a piece of.
    whole TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('user', 'agent', 'system')),
    content TEXT NOT NULL,
    at INTEGER NOT NULL,
    is_piece INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX messages_by_session ON messages (session_key, number);
CREATE UNIQUE INDEX messages_by_id ON messages (id);
CREATE INDEX messages_by_whole ON messages (whole);
CREATE INDEX messages_by_time ON messages (at);

-- What of the agent's output has been read, and what was ever meant for its input; both count bytes.
CREATE TABLE conversations (
    session_key INTEGER PRIMARY KEY REFERENCES sessions (key),
    read_to INTEGER NOT NULL,
    written_to INTEGER NOT NULL,
    state TEXT NOT NULL
) STRICT;

-- Lines for the agent that its holder may not have yet, by where they begin in its input.
CREATE TABLE outbox (
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    offset INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (session_key, offset)
) STRICT, WITHOUT ROWID;

CREATE TABLE permissions (
    id TEXT PRIMARY KEY NOT NULL,
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    state TEXT NOT NULL CHECK (state IN ('pending', 'answered', 'cancelled')),
    title TEXT NOT NULL,
    options TEXT NOT NULL,
    tool_call TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT CHECK (answered_by IN ('human', 'rule', 'session')),
    created_at INTEGER NOT NULL,
    answered_at INTEGER
) STRICT;

CREATE INDEX permissions_by_session ON permissions (session_key, created_at);
CREATE INDEX permissions_pending ON permissions (created_at) WHERE state = 'pending';

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
WHERE channel = 'acp' AND repo_id IS NOT NULL;

CREATE VIEW AgentMessage AS
SELECT
    messages.id,
    sessions.id AS sessionId,
    messages.role,
    messages.content,
    strftime('%Y-%m-%dT%H:%M:%fZ', messages.at / 1000.0, 'unixepoch') AS timestamp
FROM messages JOIN sessions ON sessions.key = messages.session_key
WHERE sessions.channel = 'acp' AND sessions.repo_id IS NOT NULL;
