DROP TABLE questions;
DROP TABLE workflows;
DROP TABLE agents;
DROP TABLE task_dependencies;
DROP TABLE tasks;
