-- Runs of workflows: what they go by, how far they have come, and which agent worked on which step.

ALTER TABLE tasks ADD COLUMN repo TEXT;
ALTER TABLE agents ADD COLUMN workflow_id TEXT;
ALTER TABLE agents ADD COLUMN step TEXT;
ALTER TABLE workflows ADD COLUMN definition TEXT NOT NULL DEFAULT '';
ALTER TABLE workflows ADD COLUMN progress TEXT NOT NULL DEFAULT '';

CREATE INDEX agents_by_workflow ON agents (workflow_id) WHERE workflow_id IS NOT NULL;
-- Never two at once on one task, whoever writes.
CREATE UNIQUE INDEX agents_one_live ON agents (task_id) WHERE state IN ('starting', 'running');
CREATE UNIQUE INDEX workflows_one_live ON workflows (task_id) WHERE state IN ('running', 'pending_merge');

-- Lists of several states are in this order too, without sorting.
CREATE INDEX tasks_in_order ON tasks (priority, created_at) WHERE deleted_at IS NULL;
