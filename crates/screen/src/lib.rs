//! A terminal model of a session's output, and snapshots of it as ANSI, text and HTML.
