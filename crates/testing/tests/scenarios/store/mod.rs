//! STORE: the one store under everything, as far as sessions go.

mod configuration;
mod database;
mod events;
mod reconnecting;
mod recovery;
mod retention;
