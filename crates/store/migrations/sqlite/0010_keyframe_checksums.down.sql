ALTER TABLE keyframes DROP COLUMN checksum;
