//! The daemon: engine, loops and surfaces.
