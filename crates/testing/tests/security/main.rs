//! Who gets in and who does not: token, Host, Origin, uid, sizes, modes.

mod bodies;
mod files;
mod foreign_text;
mod tcp;
mod uid;
mod websocket;
