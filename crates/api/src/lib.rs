//! Wire types and the typed client of the daemon.
