-- The newest `session.output` of each session; the next one replaces it.
CREATE UNIQUE INDEX events_output ON events (subject) WHERE kind = 'session.output';

-- A replaced event leaves a hole in the numbers, so the first number that is left does not say what has expired.
INSERT INTO meta (key, value)
VALUES ('events_expired_to', coalesce(
    (SELECT min(number) - 1 FROM events), (SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0));
