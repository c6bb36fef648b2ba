//! Access control and trust: token, Host, Origin, uid, sizes, file modes, and state or settings from other users.

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
