//! Connections to this user's own daemon only.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Connects to a socket whose other end runs as this user. Prompts and environments are sent over it.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    match peer.uid == rustix::process::geteuid() {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user's process listens there")),
    }
}
