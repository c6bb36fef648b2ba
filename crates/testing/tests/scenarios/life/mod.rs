//! LIFE: sessions of agents in a terminal.

mod archive;
mod attach;
mod browser;
mod control;
mod detached;
mod launch;
mod list;
mod recovery;
mod sizes;
mod states;
