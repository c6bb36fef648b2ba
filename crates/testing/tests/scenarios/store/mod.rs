//! STORE: the one store under everything, as far as sessions go.

mod configuration;
mod database;
mod events;
mod migrate;
mod output;
mod reconnecting;
mod recovery;
mod retention;
