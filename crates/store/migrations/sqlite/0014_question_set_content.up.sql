-- The whole set as JSON, for events and the state. NULL: written by an older coven.
ALTER TABLE question_sets ADD COLUMN content TEXT;
