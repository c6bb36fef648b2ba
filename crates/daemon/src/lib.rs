//! The daemon: engine, loops and surfaces.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

pub mod engine;
pub mod error;
pub mod events;
mod log_writer;
pub mod loops;
mod serve;
pub mod surface;

pub use serve::{ServeOptions, serve};
