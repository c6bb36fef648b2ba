//! The Unix socket of a home: only for this user, and bound again if its file is deleted.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::serve::Listener;
use tokio::net::{UnixListener, UnixStream};

use crate::reply::Peer;

/// How often the daemon checks that the socket's file exists.
const LOOK_FOR_SOCKET: Duration = Duration::from_secs(1);

/// Binds the socket of a home. The caller has the store's lock, so an existing file belongs to no running daemon.
pub fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Private from the start, regardless of the umask.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(socket);
    rustix::process::umask(before);
    bound
}

/// Accepts only connections from the daemon's uid, even if the folder's permissions let others through. Binds again
/// if the socket's file is deleted: without it no command could reach the daemon.
pub struct OurUsersOnly {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file.
    file: Option<(u64, u64)>,
    look: tokio::time::Interval,
}

impl OurUsersOnly {
    pub fn new(listener: UnixListener, path: &Path) -> Self {
        let mut look = tokio::time::interval(LOOK_FOR_SOCKET);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Self { listener, path: path.to_owned(), file: file_id(path), look }
    }

    fn bind_again_if_lost(&mut self) {
        let found = file_id(&self.path);
        if found.is_some() && found == self.file {
            return;
        }
        match listen(&self.path) {
            Ok(listener) => {
                tracing::warn!("the socket's file was gone or replaced; the daemon made a new one");
                (self.listener, self.file) = (listener, file_id(&self.path));
            }
            Err(error) => tracing::debug!(%error, "the socket's file is gone and cannot be made"),
        }
    }
}

fn file_id(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

impl Listener for OurUsersOnly {
    type Io = UnixStream;
    type Addr = Peer;

    async fn accept(&mut self) -> (UnixStream, Peer) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.look.tick() => {
                    self.bind_again_if_lost();
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) if is_ours(&stream) => {
                    let peer = Peer { pid: stream.peer_cred().ok().and_then(|peer| peer.pid()?.try_into().ok()) };
                    return (stream, peer);
                }
                Ok(_) => tracing::warn!("a connection of another user was refused"),
                // Usually out of file descriptors: wait until others close theirs.
                Err(error) => {
                    tracing::error!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer { pid: Some(std::process::id()) })
    }
}

fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}
