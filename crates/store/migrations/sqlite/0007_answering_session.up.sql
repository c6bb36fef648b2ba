-- The session whose process answered; answered_by is `session` then.
ALTER TABLE permissions ADD COLUMN answering_session TEXT;
