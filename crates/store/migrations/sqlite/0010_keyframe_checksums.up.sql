-- CRC-32 of offset, size and screen. NULL: written by an older coven.
ALTER TABLE keyframes ADD COLUMN checksum INTEGER;
