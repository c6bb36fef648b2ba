//! One test per scenario of `scenarios.tsv`, named after its number, against the built binary.

mod life;
mod store;
