-- State of the activity of a session beside its status and its evidence: background tasks that are running, and the hook
-- calls that were handled last.

CREATE TABLE activity_checkpoints (
    session_key INTEGER PRIMARY KEY REFERENCES sessions (key),
    background INTEGER NOT NULL,
    is_turn_over INTEGER NOT NULL,
    hook_calls TEXT NOT NULL
) STRICT;
