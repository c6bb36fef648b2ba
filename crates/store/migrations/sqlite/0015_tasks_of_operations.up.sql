-- The operation that added a task together with others: a list of these tasks replaces a copy of them in the operation.
ALTER TABLE tasks ADD COLUMN operation TEXT;
CREATE INDEX tasks_by_operation ON tasks (operation) WHERE operation IS NOT NULL;
