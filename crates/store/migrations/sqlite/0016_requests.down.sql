DROP VIEW questions;

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
    answered_at INTEGER,
    -- The session whose process answered; answered_by is `session` then.
    answering_session TEXT
) STRICT;

CREATE INDEX permissions_by_session ON permissions (session_key, created_at);
CREATE INDEX permissions_pending ON permissions (created_at) WHERE state = 'pending';

CREATE TABLE questions (
    id TEXT PRIMARY KEY NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agents (id) ON DELETE CASCADE,
    state TEXT NOT NULL CHECK (state IN ('pending', 'completed', 'rejected', 'timed_out', 'abandoned')),
    questions TEXT NOT NULL DEFAULT '[]',
    answers TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    answered_at INTEGER
) STRICT;

CREATE INDEX questions_by_agent ON questions (agent_id);
CREATE INDEX questions_by_state ON questions (state);

-- An older coven can answer only the requests that came over ACP.
INSERT INTO permissions
SELECT id, session_key,
    CASE
        WHEN state = 'rejected' THEN 'cancelled'
        WHEN state = 'pending' AND source <> 'acp' THEN 'cancelled'
        ELSE state
    END,
    title, body -> '$.options', body -> '$.tool_call', answer ->> '$.option',
    CASE WHEN answered_by LIKE 'session:%' THEN 'session' ELSE answered_by END,
    created_at, answered_at,
    CASE WHEN answered_by LIKE 'session:%' THEN substr(answered_by, 9) END
FROM requests WHERE kind = 'permission' AND session_key IS NOT NULL;

INSERT INTO questions
SELECT id, agent_id,
    CASE state WHEN 'answered' THEN 'completed' WHEN 'cancelled' THEN 'abandoned' ELSE state END,
    json_array(json(body)), answer, created_at, updated_at, answered_at
FROM requests WHERE kind = 'input' AND agent_id IS NOT NULL;

DROP TABLE requests;
