ALTER TABLE sessions DROP COLUMN activity_until;
