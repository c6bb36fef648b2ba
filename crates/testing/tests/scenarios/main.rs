//! One test per scenario of `scenarios.tsv`, named after its number, against the built binary.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

mod life;
mod store;
