DROP VIEW AgentMessage;
DROP VIEW AgentSession;
DROP TABLE permissions;
DROP TABLE outbox;
DROP TABLE conversations;
DROP TABLE messages;
ALTER TABLE repos DROP COLUMN removed_at;

CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    session_key INTEGER NOT NULL REFERENCES sessions (key),
    role TEXT NOT NULL CHECK (role IN ('user', 'agent', 'system')),
    content TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT;

CREATE INDEX messages_by_session ON messages (session_key, at);
CREATE INDEX messages_by_time ON messages (at);

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
