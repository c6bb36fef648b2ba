//! What touches the operating system: process identity, harness discovery, home, locks, atomic writes.
