DROP INDEX tasks_by_operation;
ALTER TABLE tasks DROP COLUMN operation;
