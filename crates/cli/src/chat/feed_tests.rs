//! The feed against a scripted daemon on a real socket.

use coven_api::inbox::{InboxItem, InboxKind, InboxStatus};
use coven_domain::session::SessionState;
use serde_json::json;

use super::feed::Feed;
use super::fixtures::{agent, message_id, piece, question, state, user};
use super::past::{Extent, Past};
use super::report::{Answer, Chosen, Report, Request};
use super::row::Row;
use super::scripted_daemon::{SESSION, ScriptedDaemon};
use super::transcript::Detail;
use crate::daemon_client;
use crate::daemon_connector::DaemonConnector;

/// A daemon in a folder of its own and a feed on it.
struct Rig {
    folder: tempfile::TempDir,
    daemon: ScriptedDaemon,
    feed: Feed,
}

impl Rig {
    fn new(messages: Vec<coven_api::message::MessageRecord>) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the socket");
        let socket = folder.path().join("coven.sock");
        let daemon = ScriptedDaemon::start(&socket, messages);
        let (feed, _) =
            Feed::start(DaemonConnector::to_socket(&socket), SESSION.to_owned(), 0, Some(0)).expect("threads are left");
        Self { folder, daemon, feed }
    }

    fn wait_for(&mut self, wanted: impl Fn(&Report) -> bool) -> Report {
        loop {
            let report = self.feed.next().expect("the feed goes on");
            if wanted(&report) {
                return report;
            }
        }
    }

    fn next_message(&mut self) -> u64 {
        match self.wait_for(|report| matches!(report, Report::Message(_))) {
            Report::Message(message) => message.number,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&mut self, request: Request) -> Result<Answer, String> {
        self.feed.ask(request).expect("nothing is under way");
        match self.wait_for(|report| matches!(report, Report::Answered { .. })) {
            Report::Answered { answer, .. } => answer,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_was_said_comes_first_and_then_what_is_said() {
    let mut rig = Rig::new(vec![user(1, "hello")]);
    assert_eq!(rig.feed.next(), Some(Report::Connected));
    assert_eq!(rig.feed.next(), Some(Report::State(Box::new(state("idle", 0)))));
    assert_eq!(rig.next_message(), 1);
    rig.daemon.say(piece(2, "a", "hi"));
    assert_eq!(rig.next_message(), 2);
    rig.daemon.set_state(state("working", 0));
    rig.wait_for(|report| *report == Report::State(Box::new(state("working", 0))));
    rig.daemon.end();
    let ended = rig.wait_for(|report| matches!(report, Report::Ended(_)));
    assert!(matches!(ended, Report::Ended(record) if record.status == SessionState::Completed));
}

#[test]
fn a_daemon_that_vanished_is_found_again_and_nothing_is_missed_or_told_twice() {
    let mut rig = Rig::new(vec![user(1, "hello"), piece(2, "a", "one ")]);
    assert_eq!((rig.next_message(), rig.next_message()), (1, 2));
    let messages = rig.daemon.vanish();
    rig.wait_for(|report| matches!(report, Report::Lost(_)));
    // when a new one has gone on meanwhile, then only what is new is told
    let socket = rig.folder.path().join("coven.sock");
    let again = ScriptedDaemon::start(&socket, messages);
    again.say_silently(agent(3, "a", "one two"));
    assert_eq!(rig.next_message(), 3);
}

#[test]
fn a_prompt_is_sent_once_even_if_the_answer_to_it_is_lost() {
    let mut rig = Rig::new(Vec::new());
    rig.daemon.break_after_prompt();
    let answer = rig.ask(Request::Prompt("do it".into()));
    assert_eq!(answer, Ok(Answer::Accepted(message_id("00000000-0000-4000-8000-000000000001"))));
    let prompts = rig.daemon.asked().into_iter().filter(|(what, _)| what.ends_with("/prompt")).count();
    assert_eq!(prompts, 1);
}

#[test]
fn requests_reach_their_routes() {
    let mut rig = Rig::new(Vec::new());
    rig.ask(Request::Cancel).expect("it is accepted");
    rig.ask(Request::Mode("plan".into())).expect("it is accepted");
    rig.ask(Request::Config { id: "model".into(), value: "b2".into() }).expect("it is accepted");
    let path = |verb: &str| format!("POST /api/v1/sessions/{SESSION}/{verb}");
    let expected = [
        (path("cancel"), json!(null)),
        (path("mode"), json!({"mode_id": "plan"})),
        (path("config"), json!({"config_id": "model", "value": "b2"})),
    ];
    assert_eq!(rig.daemon.asked(), expected);
}

#[test]
fn questions_are_found_while_the_agent_waits_and_told_when_they_are_settled() {
    let mut rig = Rig::new(Vec::new());
    rig.daemon.set_inbox(vec![question("q1", "touch x"), question("q2", "touch y")]);
    rig.daemon.set_state(state("waiting", 0));
    let asked = rig.wait_for(|report| matches!(report, Report::Questions { .. }));
    let pending = vec![question("q1", "touch x"), question("q2", "touch y")];
    assert_eq!(asked, Report::Questions { pending, settled: Vec::new() });
    // when one is answered here, then the inbox has one less
    let answer = rig.ask(Request::Answer { question: "q1".into(), answer: Chosen::Deny }).expect("it was open");
    assert!(matches!(answer, Answer::Settled(item) if item.answer.as_deref() == Some("no")));
    let settled = rig.wait_for(|report| matches!(report, Report::Questions { .. }));
    let Report::Questions { pending, settled } = settled else { panic!("it was waited for") };
    assert_eq!((pending.len(), settled.len()), (1, 1));
    // when the same is answered again, then it is refused
    let again = rig.ask(Request::Answer { question: "q1".into(), answer: Chosen::Allow });
    assert!(again.is_err_and(|why| why.starts_with("it was answered already")));
}

#[test]
fn what_newly_waits_is_told_whoever_asks_and_question_sets_are_not_asked_here() {
    let mut rig = Rig::new(Vec::new());
    let set = InboxItem { kind: InboxKind::QuestionSet, ..question("s1", "Which?") };
    let settled = InboxItem { status: InboxStatus::Answered, ..question("q0", "touch w") };
    rig.daemon.set_inbox(vec![settled, set.clone(), question("q1", "touch x")]);
    rig.daemon.emit("permission.requested", "gone");
    rig.daemon.emit("permission.requested", "q0");
    rig.daemon.emit("question_set.asked", "s1");
    let told = rig.wait_for(|report| matches!(report, Report::Waits(_)));
    assert_eq!(told, Report::Waits(Box::new(set)), "what is gone or answered does not wait");
    rig.daemon.set_state(state("waiting", 0));
    let asked = rig.wait_for(|report| matches!(report, Report::Questions { .. }));
    assert_eq!(asked, Report::Questions { pending: vec![question("q1", "touch x")], settled: Vec::new() });
}

#[test]
fn of_a_long_past_the_recent_part_is_shown_from_a_prompt_on() {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    let socket = folder.path().join("coven.sock");
    let said = |turn: u64| [user(turn * 2 + 1, &format!("ask {turn}")), agent(turn * 2 + 2, &format!("a{turn}"), "ok")];
    ScriptedDaemon::start(&socket, (0..100).flat_map(said).collect());
    let printed = std::cell::RefCell::new(Vec::new());
    let read = |extent| {
        let connector = DaemonConnector::to_socket(&socket);
        let print = |rows: &[Row]| {
            printed.borrow_mut().extend(rows.iter().map(Row::text));
            Ok(())
        };
        daemon_client::block_on(async {
            Past::read(&mut connector.open().await?, SESSION, extent, Some(60), Detail::default(), print).await
        })
        .expect("the daemon answers")
    };
    let recent = read(Extent::Recent);
    let texts: Vec<String> = recent.rows.iter().map(Row::text).collect();
    assert_eq!(&texts[..3], ["… 160 earlier messages: coven chat 1a2b3c4d --all", "", "› ask 80"]);
    assert_eq!((recent.after, recent.prompts.len()), (200, 100));
    assert!(read(Extent::Nothing).rows.is_empty() && printed.borrow().is_empty());
    // The whole history is printed while it is read, not kept.
    let all = read(Extent::All);
    assert_eq!((all.rows.len(), all.after, printed.borrow()[0].as_str()), (0, 200, "› ask 0"));
}

#[test]
fn a_long_history_is_printed_before_it_is_read_to_its_end() {
    let folder = tempfile::tempdir().expect("a folder for the socket");
    let socket = folder.path().join("coven.sock");
    let daemon = ScriptedDaemon::start(&socket, (1..=3).map(|number| user(number, "ask")).collect());
    let connector = DaemonConnector::to_socket(&socket);
    let mut printed = 0;
    // The daemon vanishes after the first page.
    let print = |rows: &[Row]| {
        if printed == 0 {
            daemon.vanish();
        }
        printed += rows.len();
        Ok(())
    };
    let read = daemon_client::block_on(async {
        Past::read(&mut connector.open().await?, SESSION, Extent::All, Some(60), Detail::default(), print).await
    });
    assert!(read.is_err() && printed > 0, "{printed} rows");
}
