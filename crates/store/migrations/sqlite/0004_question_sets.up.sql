-- What was last told of each question set. The sets themselves are folders; this is there so that every change of one is
-- told once, also when nobody was there to see it.

CREATE TABLE question_sets (
    id TEXT PRIMARY KEY NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'completed', 'rejected', 'timed_out', 'abandoned')),
    -- Points nowhere in particular: the session may be of another home, or gone.
    session_id TEXT,
    title TEXT NOT NULL,
    question_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    modified_at INTEGER NOT NULL
) STRICT;
