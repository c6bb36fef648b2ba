//! LIFE: sessions of agents in a terminal.

mod app;
mod archive;
mod attach;
mod control;
mod detached;
mod launch;
mod list;
mod recovery;
mod sizes;
mod states;
