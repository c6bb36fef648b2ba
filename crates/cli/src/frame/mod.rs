//! What full screens have in common: the thread that talks to the daemon, the menu, the page of keys.

pub mod desk;
pub mod help;
pub mod menu;
