DROP INDEX tasks_in_order;
DROP INDEX workflows_one_live;
DROP INDEX agents_one_live;
DROP INDEX agents_by_workflow;
ALTER TABLE workflows DROP COLUMN progress;
ALTER TABLE workflows DROP COLUMN definition;
ALTER TABLE agents DROP COLUMN step;
ALTER TABLE agents DROP COLUMN workflow_id;
ALTER TABLE tasks DROP COLUMN repo;
