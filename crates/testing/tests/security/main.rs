//! Who gets in and what is used: token, Host, Origin, uid, sizes, modes, and state or settings that others made.

mod bodies;
mod client;
mod files;
mod foreign_text;
mod hostile_files;
mod tcp;
mod trust;
mod trusted_git;
mod typed_secrets;
mod uid;
mod websocket;
