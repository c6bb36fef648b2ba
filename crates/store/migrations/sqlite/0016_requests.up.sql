-- One table for the requests of agents to a human: permissions, questions and terminal prompts.

CREATE TABLE requests (
    id TEXT PRIMARY KEY NOT NULL,
    session_key INTEGER REFERENCES sessions (key),
    -- The agent of a task; a terminal prompt outlives its session.
    agent_id TEXT REFERENCES agents (id) ON DELETE CASCADE,
    kind TEXT NOT NULL CHECK (kind IN ('permission', 'question', 'input')),
    source TEXT NOT NULL CHECK (source IN ('acp', 'hook', 'terminal')),
    state TEXT NOT NULL CHECK (state IN ('pending', 'answered', 'rejected', 'cancelled')),
    title TEXT NOT NULL,
    -- JSON; its fields depend on the kind.
    body TEXT NOT NULL,
    answer TEXT,
    answered_by TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    answered_at INTEGER,
    CHECK (session_key IS NOT NULL OR agent_id IS NOT NULL)
) STRICT;

CREATE INDEX requests_by_session ON requests (session_key, created_at) WHERE session_key IS NOT NULL;
CREATE INDEX requests_by_agent ON requests (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX requests_pending ON requests (created_at, id) WHERE state = 'pending';
CREATE INDEX requests_undelivered ON requests (created_at)
    WHERE kind = 'input' AND state = 'answered' AND answer ->> '$.delivered' = 0;

INSERT INTO requests
SELECT id, session_key, NULL, 'permission', 'acp', state, title,
    json_object('options', json(options), 'tool_call', json(tool_call)),
    CASE WHEN answer IS NOT NULL THEN json_object('option', answer) END,
    CASE WHEN answering_session IS NOT NULL THEN 'session:' || answering_session ELSE answered_by END,
    created_at, coalesce(answered_at, created_at), answered_at
FROM permissions;

-- The title of a terminal prompt is the last line of its text; the program computes it.
INSERT INTO requests
SELECT questions.id, sessions.key, agent_id, 'input', 'terminal',
    CASE questions.state
        WHEN 'completed' THEN 'answered'
        WHEN 'pending' THEN 'pending'
        WHEN 'rejected' THEN 'rejected'
        ELSE 'cancelled'
    END,
    '',
    json_object('prompt', coalesce(questions.questions ->> '$[0].prompt', ''),
        'offset', coalesce(questions.questions ->> '$[0].offset', 0)),
    CASE WHEN answers ->> '$.text' IS NOT NULL THEN
        json_object('text', answers ->> '$.text', 'delivered', json(iif(answers ->> '$.delivered', 'true', 'false')))
    END,
    CASE WHEN answers ->> '$.text' IS NOT NULL THEN 'human' END,
    questions.created_at, questions.updated_at, answered_at
FROM questions
JOIN agents ON agents.id = questions.agent_id
LEFT JOIN sessions ON sessions.id = agents.session_id;

DROP TABLE permissions;
DROP TABLE questions;

-- The questions of the store specification, for programs that read the database.
CREATE VIEW questions AS
SELECT id, agent_id,
    CASE state WHEN 'answered' THEN 'completed' WHEN 'cancelled' THEN 'abandoned' ELSE state END AS state,
    title, body, answer AS answers, created_at, updated_at, answered_at
FROM requests WHERE kind IN ('question', 'input');
