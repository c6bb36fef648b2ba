ALTER TABLE permissions DROP COLUMN answering_session;
