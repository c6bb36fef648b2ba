-- What became different in a task, when, and by whom; oldest first by number.

CREATE TABLE task_history (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    field TEXT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL
) STRICT;

CREATE INDEX task_history_by_task ON task_history (task_id, number);
