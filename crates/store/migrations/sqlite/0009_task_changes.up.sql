-- How much a task's work changed, as a JSON object, and what was merged of it, as a range of two commits.

ALTER TABLE tasks ADD COLUMN changes TEXT;
ALTER TABLE tasks ADD COLUMN merged TEXT;
