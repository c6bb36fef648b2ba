DROP TABLE task_history;
