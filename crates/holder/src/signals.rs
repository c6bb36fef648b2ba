//! Signals to the holder itself, as something that can be waited for with everything else.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGCHLD, SIGTERM};

#[derive(Debug)]
pub struct Signals {
    woken: UnixStream,
    is_told_to_stop: Arc<AtomicBool>,
}

impl Signals {
    pub fn watch() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let is_told_to_stop = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGTERM, is_told_to_stop.clone())?;
        signal_hook::low_level::pipe::register(SIGTERM, wake.try_clone()?)?;
        // A child ended, ours or an orphan that came to us. A handler also undoes a SIGCHLD that was ignored by
        // whoever started us, with which the kernel would throw the exit status away.
        signal_hook::low_level::pipe::register(SIGCHLD, wake)?;
        Ok(Self { woken, is_told_to_stop })
    }

    /// Forgets what was told up to now; look at the world afterwards.
    pub fn clear(&self) {
        let mut sink = [0; 64];
        while (&self.woken).read(&mut sink).is_ok_and(|count| count == sink.len()) {}
    }

    /// Somebody, a shutdown for one, asked the holder to end.
    pub fn take_stop(&self) -> bool {
        self.is_told_to_stop.swap(false, Ordering::Relaxed)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
