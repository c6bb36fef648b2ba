//! Who gets in and who does not: token, Host, Origin, uid, sizes, modes.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected has failed")]

mod bodies;
mod files;
mod tcp;
mod uid;
mod websocket;
