-- The work: tasks, their dependencies, the agents that attempt them, workflows and agents' questions.

CREATE TABLE tasks (
    id TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL DEFAULT '',
    type TEXT NOT NULL DEFAULT 'task',
    priority INTEGER NOT NULL DEFAULT 2 CHECK (priority BETWEEN 0 AND 4),
    parent_id TEXT REFERENCES tasks (id) ON DELETE SET NULL,
    tags TEXT NOT NULL DEFAULT '[]',
    state TEXT NOT NULL CHECK (state IN ('open', 'in_progress', 'pending_merge', 'blocked', 'closed')),
    -- Why it is blocked or was closed, for the human.
    reason TEXT,
    claimed_by TEXT,
    claimed_until INTEGER,
    base_branch TEXT,
    base_commit TEXT,
    harness TEXT,
    workflow TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    closed_at INTEGER,
    deleted_at INTEGER,
    CHECK ((state = 'closed') = (closed_at IS NOT NULL))
) STRICT;

-- Ready tasks in the order they are given out: priority, then age.
CREATE INDEX tasks_by_state ON tasks (state, priority, created_at) WHERE deleted_at IS NULL;
CREATE INDEX tasks_by_parent ON tasks (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX tasks_closed ON tasks (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX tasks_deleted ON tasks (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE task_dependencies (
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    depends_on TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    PRIMARY KEY (task_id, depends_on),
    CHECK (task_id <> depends_on)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_dependencies_by_target ON task_dependencies (depends_on);

CREATE TABLE agents (
    id TEXT PRIMARY KEY NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    session_id TEXT REFERENCES sessions (id) ON DELETE SET NULL,
    state TEXT NOT NULL CHECK (state IN ('starting', 'running', 'completed', 'failed', 'killed')),
    pid INTEGER,
    worktree TEXT,
    branch TEXT,
    output_file TEXT,
    error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE INDEX agents_by_task ON agents (task_id);
CREATE INDEX agents_by_session ON agents (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX agents_live ON agents (state) WHERE state IN ('starting', 'running');

CREATE TABLE workflows (
    id TEXT PRIMARY KEY NOT NULL,
    task_id TEXT NOT NULL REFERENCES tasks (id),
    agent_id TEXT REFERENCES agents (id) ON DELETE SET NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('running', 'blocked', 'pending_merge', 'completed', 'failed', 'cancelled')),
    step INTEGER NOT NULL DEFAULT 0,
    error TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    ended_at INTEGER
) STRICT;

CREATE INDEX workflows_by_task ON workflows (task_id);
CREATE INDEX workflows_by_agent ON workflows (agent_id) WHERE agent_id IS NOT NULL;
CREATE INDEX workflows_by_state ON workflows (state, updated_at);

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
