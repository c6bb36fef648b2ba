ALTER TABLE question_sets DROP COLUMN content;
