DROP TABLE activity_checkpoints;
