//! Polls the descriptors that the holder can handle now, until the next timer is due.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Holder;
use crate::initial_input::InitialInput;

impl Holder {
    pub(super) fn wants_output(&self) -> bool {
        self.held.is_empty()
            && self.pipe_backoff.is_over()
            && !self.is_output_closed
            && !self.is_exit_noted
            && self.recorder.wants_output()
    }

    pub(super) fn wants_stderr(&self) -> bool {
        !self.is_exit_noted && self.recorder.wants_output()
    }

    pub(super) fn wants_input(&self) -> bool {
        self.exit.is_some() || (!self.input_queue.is_full() && self.recorder.wants_input())
    }

    pub(super) fn poll_events(&self) -> ReadyEvents {
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(5 + self.viewers.len());
        // Leave out descriptors that are not wanted: poll reports a hang-up even without requested events.
        let signal = add(&mut fds, Some(self.signals.as_fd()), PollFlags::IN);
        let listener = Some(self.listener.as_fd()).filter(|_| self.accept_at.is_none());
        let listener = add(&mut fds, listener, PollFlags::IN);
        let output = Some(self.harness.output.as_fd()).filter(|_| self.wants_output());
        let output = add(&mut fds, output, PollFlags::IN);
        let stderr = self.harness.stderr.as_ref().filter(|_| self.wants_stderr());
        let stderr = add(&mut fds, stderr.map(AsFd::as_fd), PollFlags::IN);
        let input = self.harness.input.as_ref().filter(|_| !self.input_queue.is_empty() && self.exit.is_none());
        add(&mut fds, input.map(AsFd::as_fd), PollFlags::OUT);
        let first_viewer = fds.len();
        let mut polled = Vec::with_capacity(self.viewers.len());
        for (index, viewer) in self.viewers.iter().enumerate() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, viewer.accepts_requests());
            flags.set(PollFlags::OUT, viewer.wants_to_send());
            if !flags.is_empty() {
                polled.push(index);
                add(&mut fds, Some(viewer.as_fd()), flags);
            }
        }
        let timeout = self.next_deadline().map(|at| {
            let wait = at.saturating_duration_since(Instant::now());
            Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: i64::from(wait.subsec_nanos()) }
        });
        if !poll(&mut fds, timeout.as_ref()).is_ok_and(|count| count > 0) {
            return ReadyEvents::default();
        }
        let is_ready = |index: Option<usize>| index.is_some_and(|index| !fds[index].revents().is_empty());
        ReadyEvents {
            signal: is_ready(signal),
            listener: is_ready(listener),
            output: is_ready(output),
            stderr: is_ready(stderr),
            viewers: polled
                .into_iter()
                .zip(fds[first_viewer..].iter().map(PollFd::revents))
                .filter(|(_, flags)| !flags.is_empty())
                .collect(),
        }
    }

    /// Returns true if a viewer has sent a request that can be handled now. Does not wait.
    pub(super) fn has_request(&self) -> bool {
        let asking = self.viewers.iter().filter(|viewer| viewer.accepts_requests());
        let mut fds: Vec<PollFd<'_>> =
            asking.map(|viewer| PollFd::from_borrowed_fd(viewer.as_fd(), PollFlags::IN)).collect();
        !fds.is_empty() && poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let end = self.recorder.end();
        [
            self.recorder.next_deadline(),
            self.initial_input.as_ref().map(InitialInput::next_deadline),
            self.pipe_backoff.until(),
            self.reopen_at,
            self.accept_at,
            self.termination.as_ref().filter(|_| !self.is_exit_noted).map(|it| it.next_deadline(self.survivors)),
            self.linger_until,
            // A viewer is behind and its socket has room: continue immediately.
            self.viewers.iter().any(|it| it.is_behind(end) && !it.wants_to_send()).then(Instant::now),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Event sources that are ready.
#[derive(Debug, Default)]
pub(super) struct ReadyEvents {
    pub(super) signal: bool,
    pub(super) listener: bool,
    pub(super) output: bool,
    pub(super) stderr: bool,
    pub(super) viewers: Vec<(usize, PollFlags)>,
}

/// Adds a descriptor to the poll list and returns its index.
fn add<'a>(fds: &mut Vec<PollFd<'a>>, fd: Option<BorrowedFd<'a>>, flags: PollFlags) -> Option<usize> {
    fds.push(PollFd::from_borrowed_fd(fd?, flags));
    Some(fds.len() - 1)
}
