-- When the limit of a limited agent resets, if it is known.

ALTER TABLE sessions ADD COLUMN activity_until INTEGER;
