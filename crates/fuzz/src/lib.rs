//! Fuzz targets for coven's parsers, their corpus, and random damage to files.
//!
//! `cargo xtask fuzz` runs the targets. The tests of this crate run the corpus and a fixed number of mutations.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

// Only the binary of this package uses clap.
use clap as _;

pub mod corpus;
pub mod damage;
mod dice;
mod mutate;
mod outcome;
mod planted;
mod scratch;
pub mod supervisor;
mod targets;
pub mod worker;

pub use dice::Dice;
pub use mutate::{MAX_INPUT, mutated};
pub use outcome::{outcomes_of, saw};
pub use targets::{TARGETS, Target, target};
