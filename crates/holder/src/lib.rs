//! The process that owns one session's terminal or pipes, its log and its socket.
