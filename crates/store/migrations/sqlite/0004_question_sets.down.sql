DROP TABLE question_sets;
