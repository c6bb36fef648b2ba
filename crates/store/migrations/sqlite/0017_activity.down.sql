DROP TABLE observations;
ALTER TABLE sessions DROP COLUMN unseen;
ALTER TABLE sessions DROP COLUMN activity_detail;
ALTER TABLE sessions DROP COLUMN activity_source;
ALTER TABLE sessions DROP COLUMN activity_since;
ALTER TABLE sessions DROP COLUMN activity;
