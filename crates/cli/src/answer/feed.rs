//! The folder of question sets, on a thread of its own: tells what changes in it, and writes answers into it. The screen
//! never waits for a file.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use coven_domain::QuestionSetId;
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{FolderWatch, Listed, QuestionError, QuestionFolder, QuestionSet};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::draft::Drafts;
use super::state::{Asked, Report, Sending};
use crate::failure::Failure;

/// The thread waits when the screen is so far behind.
const MOST_REPORTS: usize = 256;
/// More answers than this are not under way at once.
const MOST_REQUESTS: usize = 16;
/// How often to look where the kernel does not tell of changes.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// How often to look all the same: for askers that died, and for a folder that was replaced as a whole.
const SELDOM: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Request {
    pub id: String,
    pub what: Wanted,
}

#[derive(Debug)]
pub enum Wanted {
    Answers(Vec<QuestionAnswer>),
    Rejection(Option<String>),
}

impl Wanted {
    pub fn kind(&self) -> Sending {
        match self {
            Self::Answers(_) => Sending::Answers,
            Self::Rejection(_) => Sending::Rejection,
        }
    }
}

pub struct Feed {
    requests: SyncSender<Request>,
    reports: Receiver<Report>,
    wake: UnixStream,
    thread: JoinHandle<()>,
}

impl Feed {
    /// Starts the thread; the second is readable whenever there are reports.
    pub fn start(folder: QuestionFolder, drafts: Drafts) -> io::Result<(Self, UnixStream)> {
        let (wake, woken) = UnixStream::pair()?;
        let (ring, bell) = UnixStream::pair()?;
        for end in [&wake, &woken, &ring, &bell] {
            end.set_nonblocking(true)?;
        }
        let (requests, wanted) = sync_channel(MOST_REQUESTS);
        let (told, reports) = sync_channel(MOST_REPORTS);
        let desk = Desk { folder, drafts, known: BTreeSet::new(), told, ring };
        let thread = std::thread::Builder::new().name("questions".into()).spawn(move || {
            // Whoever started us has left if nobody takes the reports.
            let _ = desk.run(woken, &wanted);
        })?;
        Ok((Self { requests, reports, wake, thread }, bell))
    }

    /// Hands the request back if too much is under way.
    pub fn ask(&self, request: Request) -> Result<(), Request> {
        use std::sync::mpsc::TrySendError::{Disconnected, Full};
        self.requests.try_send(request).map_err(|error| match error {
            Full(request) | Disconnected(request) => request,
        })?;
        ring(&self.wake);
        Ok(())
    }

    /// What was reported since the last time; an error if the thread has ended.
    pub fn reports(&self) -> Result<Vec<Report>, TryRecvError> {
        let mut reports = Vec::new();
        // No more at once than fit the channel: the screen is drawn in between.
        while reports.len() < MOST_REPORTS {
            match self.reports.try_recv() {
                Ok(report) => reports.push(report),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) if !reports.is_empty() => break,
                Err(TryRecvError::Disconnected) => return Err(TryRecvError::Disconnected),
            }
        }
        Ok(reports)
    }

    /// Lets what is under way end, and returns what came of it.
    pub fn close(self) -> Vec<Report> {
        let Self { requests, reports, wake, thread } = self;
        drop(requests);
        ring(&wake);
        let rest = reports.iter().collect();
        // It has told all it had to tell; if it panicked the message has been printed.
        let _ = thread.join();
        rest
    }
}

/// A bell that is full rings already.
fn ring(mut bell: &UnixStream) {
    let _ = bell.write(&[1]);
}

/// The screen is gone.
struct Left;

struct Desk {
    folder: QuestionFolder,
    drafts: Drafts,
    /// Sets that the screen believes to be waiting.
    known: BTreeSet<QuestionSetId>,
    told: SyncSender<Report>,
    ring: UnixStream,
}

impl Desk {
    fn run(mut self, mut woken: UnixStream, wanted: &Receiver<Request>) -> Result<(), Left> {
        // Watched before it is read, so that nothing happens in between.
        let mut watch = self.folder.watch().ok();
        self.folder.abandon_orphans(clock::now());
        self.look_at_all(true)?;
        loop {
            let woken_by = wait(&woken, watch.as_ref());
            let mut rings = [0; 64];
            while matches!(woken.read(&mut rings), Ok(count) if count > 0) {}
            loop {
                match wanted.try_recv() {
                    Ok(request) => self.perform(request)?,
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return Ok(()),
                }
            }
            match (woken_by, &mut watch) {
                (Woken::Folder, Some(watch)) => {
                    for id in watch.drain() {
                        self.look_at(&id)?;
                    }
                }
                (Woken::Time | Woken::Folder, _) => {
                    watch = self.folder.watch().ok();
                    self.folder.abandon_orphans(clock::now());
                    self.look_at_all(false)?;
                }
                (Woken::Screen, _) => {}
            }
        }
    }

    fn tell(&self, report: Report) -> Result<(), Left> {
        self.told.send(report).map_err(|_| Left)?;
        ring(&self.ring);
        Ok(())
    }

    fn look_at_all(&mut self, is_first: bool) -> Result<(), Left> {
        let listed = match self.folder.list() {
            Ok(listed) => listed,
            Err(error) => return self.tell(Report::Trouble(Failure::from(error).sentence())),
        };
        let gone: Vec<QuestionSetId> = {
            let there: BTreeSet<QuestionSetId> = listed.iter().filter_map(id_of).collect();
            self.known.difference(&there).copied().collect()
        };
        for id in gone {
            self.finished(&id, "was dismissed")?;
        }
        let mut broken = 0;
        let mut finished = BTreeSet::new();
        for listed in listed {
            match listed {
                Listed::Sound(set) => {
                    if set.state != QuestionSetState::Pending {
                        finished.insert(set.id.to_string());
                    }
                    self.seen(set)?;
                }
                Listed::Broken { .. } => broken += 1,
            }
        }
        if is_first {
            self.drafts.tidy(|id| finished.contains(id), SystemTime::now());
            self.tell(Report::Listed { broken })?;
        }
        Ok(())
    }

    fn look_at(&mut self, id: &QuestionSetId) -> Result<(), Left> {
        match self.folder.read(id) {
            Ok(set) => self.seen(set),
            Err(QuestionError::NotFound { .. }) => self.finished(id, "was dismissed"),
            // Half written by another tool: it changes again when it is whole.
            Err(_) => Ok(()),
        }
    }

    fn seen(&mut self, set: QuestionSet) -> Result<(), Left> {
        let how = match set.state {
            QuestionSetState::Pending => {
                if self.known.insert(set.id) {
                    let draft = self.drafts.load(&set.id.to_string());
                    self.tell(Report::Asked { asked: asked(set), draft })?;
                }
                return Ok(());
            }
            QuestionSetState::Completed => "was answered elsewhere",
            QuestionSetState::Rejected => "was rejected elsewhere",
            QuestionSetState::TimedOut => "has timed out",
            QuestionSetState::Abandoned => "needs no answer any more: the asker has gone",
        };
        self.finished(&set.id, how)
    }

    fn finished(&mut self, id: &QuestionSetId, how: &'static str) -> Result<(), Left> {
        match self.known.remove(id) {
            true => self.tell(Report::Finished { id: id.to_string(), how }),
            false => Ok(()),
        }
    }

    fn perform(&mut self, Request { id, what }: Request) -> Result<(), Left> {
        let kind = what.kind();
        let Some(known) = self.known.iter().find(|known| known.to_string() == id).copied() else {
            // It has just been reported as finished.
            return Ok(());
        };
        let now = clock::now();
        let result = match what {
            Wanted::Answers(answers) => self.folder.answer(&known, answers, now),
            Wanted::Rejection(reason) => self.folder.reject(&known, reason.as_deref(), now),
        };
        match result {
            Ok(()) => {
                self.known.remove(&known);
                self.tell(Report::Sent { id, what: kind, result: Ok(()) })
            }
            Err(error) => {
                // If somebody else was faster, the set leaves the screen first.
                self.look_at(&known)?;
                self.tell(Report::Sent { id, what: kind, result: Err(Failure::from(error).sentence()) })
            }
        }
    }
}

/// What ended a wait.
enum Woken {
    Screen,
    Folder,
    Time,
}

fn wait(woken: &UnixStream, watch: Option<&FolderWatch>) -> Woken {
    let mut fds = vec![PollFd::new(woken, PollFlags::IN)];
    fds.extend(watch.map(|watch| PollFd::from_borrowed_fd(watch.as_fd(), PollFlags::IN)));
    let limit = if watch.is_some_and(|watch| !watch.is_blind()) { SELDOM } else { BETWEEN_LOOKS };
    let limit = Timespec::try_from(limit).expect("some seconds fit");
    match poll(&mut fds, Some(&limit)) {
        Ok(0) => Woken::Time,
        Ok(_) if fds.get(1).is_some_and(|watch| !watch.revents().is_empty()) => Woken::Folder,
        // Looking at the screen's wishes once too often does no harm.
        Ok(_) | Err(_) => Woken::Screen,
    }
}

fn id_of(listed: &Listed) -> Option<QuestionSetId> {
    match listed {
        Listed::Sound(set) => Some(set.id),
        Listed::Broken { .. } => None,
    }
}

fn asked(set: QuestionSet) -> Asked {
    Asked {
        id: set.id.to_string(),
        questions: set.questions,
        asked_at: set.created_at,
        folder: set.working_directory,
        session: set.session,
    }
}
