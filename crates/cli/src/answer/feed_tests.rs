//! The feed on a real folder.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coven_domain::QuestionSetId;
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock::now;
use coven_interop::questions::{Limits, NewQuestionSet, QuestionFolder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::draft::{Draft, Drafts};
use super::feed::{Feed, Request, Wanted};
use super::fixtures::{database, features};
use super::reply::Choosable;
use super::state::{Report, Sending};

const DEADLINE: Duration = Duration::from_secs(30);

struct Fed {
    _folder: tempfile::TempDir,
    sets: QuestionFolder,
    drafts: Drafts,
}

struct Listening {
    feed: Feed,
    bell: UnixStream,
    seen: Vec<Report>,
}

impl Fed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (sets, drafts) = (QuestionFolder::at(folder.path().join("sessions")), Drafts::at(&folder.path().join("d")));
        Self { _folder: folder, sets, drafts }
    }

    fn ask(&self) -> QuestionSetId {
        let new = NewQuestionSet { questions: vec![database(), features()], ..NewQuestionSet::default() };
        self.sets.create(&new, &Limits { max_sessions: 100 }, now()).expect("asked")
    }

    fn listen(&self) -> Listening {
        let (feed, bell) = Feed::start(self.sets.clone(), self.drafts.clone()).expect("a thread");
        Listening { feed, bell, seen: Vec::new() }
    }
}

impl Listening {
    /// Waits for a report of this kind; all before it are forgotten.
    #[track_caller]
    fn hears(&mut self, is_it: impl Fn(&Report) -> bool) -> Report {
        let until = Instant::now() + DEADLINE;
        loop {
            self.seen.extend(self.feed.reports().expect("the thread lives"));
            if let Some(place) = self.seen.iter().position(&is_it) {
                return self.seen.drain(..=place).next_back().expect("it was found");
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited in vain; seen: {:?}", self.seen);
            let left = Timespec::try_from(left).expect("seconds");
            let mut fds = [PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN)];
            poll(&mut fds, Some(&left)).expect("a descriptor");
            let mut rings = [0; 64];
            while matches!(std::io::Read::read(&mut self.bell, &mut rings), Ok(count) if count > 0) {}
        }
    }
}

fn answers() -> Vec<QuestionAnswer> {
    let first = QuestionAnswer { selected_option: Some("SQLite".into()), ..QuestionAnswer::default() };
    let second = QuestionAnswer { question_index: 1, selected_options: Some(Vec::new()), ..QuestionAnswer::default() };
    vec![first, second]
}

#[test]
fn what_waits_is_told_with_its_draft_and_what_is_finished_is_not() {
    let fed = Fed::new();
    let (waiting, done) = (fed.ask(), fed.ask());
    fed.sets.answer(&done, answers(), now()).expect("answered");
    let mut draft = Draft::default().fitted(&[database(), features()]);
    draft.replies[0].keep_text(Choosable::Other, "kept");
    for id in [&waiting, &done] {
        fed.drafts.save(&id.to_string(), &draft).expect("saved");
    }

    let mut heard = fed.listen();

    let first = heard.hears(|_| true);
    let Report::Asked { asked, draft: loaded } = first else { panic!("{first:?}") };
    assert_eq!((asked.id, loaded), (waiting.to_string(), Some(draft)));
    assert_eq!(heard.hears(|_| true), Report::Listed { broken: 0 });
    assert_eq!(fed.drafts.load(&done.to_string()), None, "tidied up");
}

#[test]
fn a_new_set_and_an_end_elsewhere_are_told_at_once() {
    let fed = Fed::new();
    let mut heard = fed.listen();
    heard.hears(|report| *report == Report::Listed { broken: 0 });
    let id = fed.ask();
    heard.hears(|report| matches!(report, Report::Asked { asked, .. } if asked.id == id.to_string()));
    fed.sets.answer(&id, answers(), now()).expect("answered");
    heard.hears(|report| *report == Report::Finished { id: id.to_string(), how: "was answered elsewhere" });
    for (state, wanted) in [
        (QuestionSetState::Rejected, "was rejected elsewhere"),
        (QuestionSetState::TimedOut, "has timed out"),
        (QuestionSetState::Abandoned, "needs no answer any more: the asker has gone"),
    ] {
        let id = fed.ask();
        heard.hears(|report| matches!(report, Report::Asked { .. }));
        match state {
            QuestionSetState::Rejected => fed.sets.reject(&id, None, now()).expect("rejected"),
            _ => assert!(fed.sets.end_without_answer(&id, state, now()).expect("settled")),
        }
        let report = heard.hears(|report| matches!(report, Report::Finished { .. }));
        assert_eq!(report, Report::Finished { id: id.to_string(), how: wanted });
    }
}

#[test]
fn answers_and_rejections_reach_the_folder_also_while_the_screen_is_left() {
    let fed = Fed::new();
    let (first, second) = (fed.ask(), fed.ask());
    let mut heard = fed.listen();
    heard.hears(|report| *report == Report::Listed { broken: 0 });
    let request = Request { id: first.to_string(), what: Wanted::Answers(answers()) };
    heard.feed.ask(request).expect("there is room");
    let sent = Report::Sent { id: first.to_string(), what: Sending::Answers, result: Ok(()) };
    assert_eq!(heard.hears(|report| *report == sent), sent);
    let request = Request { id: second.to_string(), what: Wanted::Rejection(Some("no".into())) };
    heard.feed.ask(request).expect("there is room");
    let rest = heard.feed.close();
    assert!(rest.contains(&Report::Sent { id: second.to_string(), what: Sending::Rejection, result: Ok(()) }));
    let set = fed.sets.read(&second).expect("there");
    assert_eq!((set.state, set.rejection_reason.as_deref()), (QuestionSetState::Rejected, Some("no")));
}

#[test]
fn wrong_answers_are_refused_and_the_set_stays() {
    let fed = Fed::new();
    let id = fed.ask();
    let mut heard = fed.listen();
    heard.hears(|report| *report == Report::Listed { broken: 0 });
    let what = Wanted::Answers(answers().split_off(1));
    heard.feed.ask(Request { id: id.to_string(), what }).expect("there is room");
    let report = heard.hears(|report| matches!(report, Report::Sent { .. }));
    let Report::Sent { result: Err(why), .. } = report else { panic!("{report:?}") };
    assert!(why.contains("Question 0 has no answer"), "{why}");
    assert_eq!(fed.sets.read(&id).expect("there").state, QuestionSetState::Pending);
}
