//! The chat's behaviour: keys and reports in, effects out.

use std::time::{Duration, Instant};

use coven_api::acp_state::{AcpModes, AcpStateRecord, AcpUsage};
use coven_api::inbox::{InboxItem, InboxKind, InboxStatus};
use coven_api::message::MessageRecord;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use super::fixtures::{agent, message_id, piece, question, session, state, tool, user};
use super::report::{Answer, Chosen, Report, Request};
use super::row::Row;
use super::state::{App, Effect, Leaving, Message};
use super::transcript::{Detail, Transcript};
use super::view;

struct Rig {
    app: App,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let now = Instant::now();
        let transcript = Transcript::new(Some(80), Detail::default());
        let mut rig = Self { app: App::new(session("1a2b3c4d-0000-4000-8000-000000000000"), transcript, 24, now), now };
        rig.report(Report::State(Box::new(state("idle", 0))));
        rig
    }

    fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    fn update(&mut self, message: Message) -> Vec<Effect> {
        self.app.update(message, self.now)
    }

    fn report(&mut self, report: Report) -> Vec<String> {
        printed(self.update(Message::Report(report)))
    }

    fn say(&mut self, message: coven_api::message::MessageRecord) -> Vec<String> {
        self.report(Report::Message(Box::new(message)))
    }

    fn state(&mut self, activity: &str, queued: usize) -> Vec<String> {
        self.report(Report::State(Box::new(state(activity, queued))))
    }

    fn press(&mut self, key: KeyCode) -> Vec<Effect> {
        self.update(Message::Key(KeyEvent::from(key)))
    }

    fn control(&mut self, key: char) -> Vec<Effect> {
        self.update(Message::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL)))
    }

    /// Types a line and enters it.
    fn enter(&mut self, text: &str) -> Vec<Effect> {
        self.update(Message::Paste(text.to_owned()));
        self.press(KeyCode::Enter)
    }

    /// What stands below the conversation, without the empty row.
    fn live(&self) -> Vec<String> {
        view::draw(&self.app).0.iter().map(Row::text).filter(|text| !text.is_empty()).collect()
    }

    fn ask(&mut self, id: &str, title: &str) {
        self.state("waiting", 0);
        let settled = Vec::new();
        self.report(Report::Questions { pending: vec![question(id, title)], settled });
    }
}

fn printed(effects: Vec<Effect>) -> Vec<String> {
    let rows = effects.into_iter().filter_map(|effect| match effect {
        Effect::Print(rows) => Some(rows),
        _ => None,
    });
    rows.flatten().map(|row| row.text()).collect()
}

#[test]
fn a_prompt_is_seen_at_once_and_told_once() {
    let mut rig = Rig::new();
    assert_eq!(rig.enter("hello"), [Effect::Ask(Request::Prompt("hello".into()))]);
    assert_eq!(rig.live()[0], "› hello (sending)");
    assert_eq!(rig.say(user(1, "hello")), ["› hello"]);
    rig.report(Report::Answered {
        request: Request::Prompt("hello".into()),
        answer: Ok(Answer::Accepted(message_id("u1"))),
    });
    assert_eq!(rig.live(), ["› ask for something; /help shows the keys"]);
}

#[test]
fn a_prompt_that_was_not_sent_is_there_again() {
    let mut rig = Rig::new();
    rig.enter("precious");
    let refused = Report::Answered { request: Request::Prompt("precious".into()), answer: Err("it is over".into()) };
    assert_eq!(rig.report(refused), ["✖ not sent: it is over"]);
    assert_eq!((rig.app.editor.text(), rig.app.echoes.len()), ("precious", 0));
}

#[test]
fn a_queued_prompt_never_falls_into_the_answer_to_another() {
    let mut rig = Rig::new();
    rig.state("working", 0);
    rig.say(user(1, "first"));
    rig.say(piece(2, "a", "answer to the fi"));
    rig.enter("second");
    assert!(rig.say(user(3, "second")).is_empty());
    rig.state("working", 1);
    assert!(rig.live().contains(&"› second (queued)".to_owned()));
    assert_eq!(rig.say(agent(4, "a", "answer to the first")), ["answer to the first"]);
    // when its turn comes, then it is shown
    assert_eq!(rig.state("working", 0), ["", "› second"]);
}

#[test]
fn a_queued_prompt_that_is_told_again_when_it_comes_up_is_shown_once() {
    let mut rig = Rig::new();
    rig.state("working", 0);
    rig.say(piece(1, "a", "answer"));
    let queued = user(2, "second");
    assert!(rig.say(queued.clone()).is_empty());
    rig.state("working", 1);
    rig.say(agent(3, "a", "answer"));
    assert_eq!(rig.say(MessageRecord { number: 4, ..queued }), ["", "› second"]);
    assert!(rig.state("working", 0).is_empty());
    assert!(!rig.live().iter().any(|row| row.contains("queued")));
}

#[test]
fn control_c_cancels_the_turn_and_not_the_session() {
    let mut rig = Rig::new();
    rig.state("working", 0);
    assert_eq!(rig.control('c'), [Effect::Ask(Request::Cancel)]);
    assert!(rig.live()[0].ends_with("cancelling"), "{:?}", rig.live());
    assert_eq!(printed(rig.control('c')).len(), 1, "it was asked for already");
    rig.say(tool(1, "t", "touch x", "in_progress"));
    assert_eq!(rig.state("idle", 0), ["", "○ touch x … not finished"]);
    assert_eq!(rig.live().len(), 1);
}

#[test]
fn without_a_turn_control_c_clears_the_line_and_leaves_when_pressed_twice() {
    let mut rig = Rig::new();
    rig.update(Message::Paste("draft".into()));
    assert!(rig.control('c').is_empty());
    assert!(rig.app.editor.is_empty());
    assert!(rig.control('c').is_empty());
    assert_eq!(rig.live(), ["› Ctrl-C again leaves; the session goes on"]);
    assert_eq!(rig.control('c'), [Effect::Leave(Leaving::Left)]);
    // when too much time passes in between, then it begins anew
    let mut rig = Rig::new();
    rig.control('c');
    rig.wait(2_500);
    assert!(rig.control('c').is_empty());
}

#[test]
fn control_d_leaves_an_empty_line_only() {
    let mut rig = Rig::new();
    rig.state("working", 0);
    rig.update(Message::Paste("x".into()));
    assert!(rig.control('d').is_empty());
    rig.press(KeyCode::Backspace);
    assert_eq!(rig.control('d'), [Effect::Leave(Leaving::Left)]);
    assert_eq!(Rig::new().enter("/exit"), [Effect::Leave(Leaving::Left)]);
}

#[test]
fn a_question_is_answered_by_one_key() {
    for (key, answer) in [('1', Chosen::Option("yes".into())), ('a', Chosen::Allow), ('d', Chosen::Deny)] {
        let mut rig = Rig::new();
        rig.ask("q1", "touch x");
        let shown =
            ["? goose asks: touch x", "  1 Yes", "  2 No", "  a allow · d deny · Ctrl-C cancels the turn", "› "];
        assert_eq!(rig.live(), shown);
        rig.wait(500);
        let request = Request::Answer { question: "q1".into(), answer };
        assert_eq!(rig.press(KeyCode::Char(key)), [Effect::Ask(request.clone())]);
        assert!(!rig.live()[0].starts_with('?'), "it goes at once");
        let mut settled = question("q1", "touch x");
        (settled.status, settled.answer) = (InboxStatus::Answered, Some("yes".into()));
        let answered = Report::Answered { request, answer: Ok(Answer::Settled(Box::new(settled.clone()))) };
        assert_eq!(rig.report(answered), ["· touch x: Yes"]);
        let again = Report::Questions { pending: Vec::new(), settled: vec![settled] };
        assert!(rig.report(again).is_empty(), "it was told");
    }
}

#[test]
fn keys_that_were_meant_for_something_else_answer_nothing() {
    let mut rig = Rig::new();
    rig.ask("q1", "touch x");
    // at once after the question came up
    assert!(rig.press(KeyCode::Char('a')).is_empty());
    assert_eq!(rig.app.editor.text(), "a");
    // while something is typed
    rig.wait(1_000);
    assert!(rig.press(KeyCode::Char('d')).is_empty());
    rig.control('u');
    assert!(rig.press(KeyCode::Char('7')).is_empty(), "there is no such option");
    rig.control('u');
    assert_eq!(rig.press(KeyCode::Char('2')).len(), 1);
}

#[test]
fn a_question_that_is_answered_elsewhere_goes_with_a_note() {
    let mut rig = Rig::new();
    rig.ask("q1", "touch x");
    let mut settled = question("q1", "touch x");
    (settled.status, settled.answer) = (InboxStatus::Answered, Some("no".into()));
    let report = Report::Questions { pending: vec![question("q2", "touch y")], settled: vec![settled] };
    assert_eq!(rig.report(report), ["· touch x: No (answered elsewhere)"]);
    assert_eq!(rig.live()[0], "? goose asks: touch y");
    let mut cancelled = question("q2", "touch y");
    cancelled.status = InboxStatus::Cancelled;
    let report = Report::Questions { pending: Vec::new(), settled: vec![cancelled] };
    assert_eq!(rig.report(report), ["· touch y: no answer is needed any more"]);
}

#[test]
fn an_answer_that_came_too_late_says_so_and_the_question_comes_back_if_it_is_open() {
    let mut rig = Rig::new();
    rig.ask("q1", "touch x");
    rig.wait(500);
    rig.press(KeyCode::Char('a'));
    let request = Request::Answer { question: "q1".into(), answer: Chosen::Allow };
    let late = Report::Answered { request, answer: Err("the daemon does not answer".into()) };
    assert_eq!(rig.report(late), ["· the daemon does not answer"]);
    assert_eq!(rig.live()[0], "? goose asks: touch x");
}

#[test]
fn settings_are_listed_set_and_their_changes_told() {
    let modes = |current: &str| {
        let all = json!([{"id": "plan", "name": "Plan"}, {"id": "auto", "name": "Auto"}]);
        let usage = AcpUsage::read(&json!({"used": 1_500, "size": 200_000}));
        let modes = AcpModes::read(&json!({"currentModeId": current, "availableModes": all}));
        Report::State(Box::new(AcpStateRecord { modes, usage, ..state("idle", 0) }))
    };
    let mut rig = Rig::new();
    rig.report(modes("plan"));
    assert_eq!(printed(rig.enter("/mode")), ["· mode: plan", "  ▸ plan  Plan", "    auto  Auto"]);
    assert_eq!(rig.enter("/mode AUTO"), [Effect::Ask(Request::Mode("auto".into()))]);
    assert_eq!(rig.report(modes("auto")), ["· mode: Auto"]);
    assert_eq!(printed(rig.enter("/mode fast")), ["✖ there is no mode fast; possible: plan, auto"]);
    // when a turn ends, then its use is told once
    rig.state("working", 0);
    assert_eq!(rig.report(modes("auto")), ["· 1.5k of 200k tokens"]);
    rig.state("working", 0);
    assert!(rig.report(modes("auto")).is_empty());
}

#[test]
fn commands_help_and_mistakes_are_told() {
    let mut rig = Rig::new();
    assert!(printed(rig.enter("/help")).iter().any(|row| row.contains("/cancel")));
    assert_eq!(printed(rig.enter("/nonsense")).len(), 2);
    assert_eq!(printed(rig.enter("/cancel")), ["· no turn is running"]);
    assert_eq!(printed(rig.enter("/tools")), ["· tool calls are shown with their content"]);
    assert!(rig.app.transcript.detail.has_tool_content);
    assert_eq!(rig.enter("/etc/hosts is wrong").len(), 1);
}

#[test]
fn a_lost_daemon_is_told_below_and_takes_nothing_away() {
    let mut rig = Rig::new();
    rig.update(Message::Paste("draft".into()));
    rig.report(Report::Lost("it has ended".into()));
    assert_eq!(rig.live(), ["the daemon is away, reconnecting … it has ended", "› draft"]);
    rig.report(Report::Connected);
    assert_eq!(rig.live(), ["› draft"]);
}

#[test]
fn the_end_of_the_session_ends_the_chat_with_everything_said() {
    let mut rig = Rig::new();
    rig.state("working", 0);
    rig.say(piece(1, "a", "last wo"));
    let effects = rig.update(Message::Report(Report::Ended(Box::new(session("1a2b3c4d-0000-4000-8000-000000000001")))));
    assert_eq!(
        effects.last(),
        Some(&Effect::Leave(Leaving::Over(Box::new(session("1a2b3c4d-0000-4000-8000-000000000001")))))
    );
    assert_eq!(printed(effects), ["last wo"]);
}

#[test]
fn who_only_watches_sends_nothing() {
    let mut rig = Rig::new();
    rig.app.is_read_only = true;
    rig.state("working", 0);
    assert!(rig.enter("hello").is_empty());
    assert_eq!(rig.control('c'), [Effect::Leave(Leaving::Left)]);
}

#[test]
fn the_rows_below_fit_every_terminal() {
    let mut rig = Rig::new();
    rig.state("working", 2);
    for number in 0..9 {
        rig.say(tool(number, &format!("t{number}"), &"long title ".repeat(20), "in_progress"));
    }
    rig.ask("q1", &"漢字 ".repeat(60));
    rig.update(Message::Paste("line\n".repeat(30)));
    for (columns, rows) in [(80, 24), (20, 5), (3, 2), (1, 1)] {
        rig.update(Message::Resized { columns, rows });
        let (drawn, cursor) = view::draw(&rig.app);
        assert!(drawn.len() <= rows.saturating_sub(1).max(1), "{} rows in {rows}", drawn.len());
        assert!(cursor.0 < drawn.len() && (columns < 4 || cursor.1 < columns), "{cursor:?} in {columns}x{rows}");
        assert!(columns < 4 || drawn.iter().all(|row| row.width() <= columns), "{columns}x{rows}");
    }
}

#[test]
fn what_newly_waits_rings_and_is_named_unless_it_is_asked_here() {
    let mut rig = Rig::new();
    let ours = rig.app.record.id;
    let permission = InboxItem { session_id: Some(ours), ..question("q1", "touch x") };
    let set = InboxItem { kind: InboxKind::QuestionSet, session_id: Some(ours), ..question("s1", "Which\u{7}?") };
    let waits = |item: InboxItem| Message::Report(Report::Waits(Box::new(item)));
    assert_eq!(rig.update(waits(permission)), [Effect::Bell]);
    let effects = rig.update(waits(set));
    assert_eq!(effects[0], Effect::Bell);
    assert_eq!(printed(effects), ["· the agent asks: Which ? — coven answer (s1)"]);
    let effects = rig.update(waits(question("q2", "touch y")));
    assert_eq!(printed(effects), ["· goose asks: touch y — coven inbox show q2"]);
}
