DROP INDEX events_output;
DELETE FROM events WHERE kind = 'session.output';
DELETE FROM meta WHERE key = 'events_expired_to';
