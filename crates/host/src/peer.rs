//! Connects to a daemon, but only if it runs as this user.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Connects to a socket and checks that the peer runs as this user, because clients send prompts and environments.
pub fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(socket)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    match peer.uid == rustix::process::geteuid() {
        true => Ok(stream),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "a process of another user is listening there")),
    }
}
