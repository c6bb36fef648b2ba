//! One test per scenario of `scenarios.tsv`, named after its number, and one per verb of the command line, against the
//! built binary.

mod agent;
mod life;
mod store;
mod verbs;
