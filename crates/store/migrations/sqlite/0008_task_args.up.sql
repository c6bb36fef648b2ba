-- Arguments for the harness that works on a task: a JSON list of words.

ALTER TABLE tasks ADD COLUMN args TEXT NOT NULL DEFAULT '[]';
