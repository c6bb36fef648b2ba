//! Tests of the conversation pane: messages in, rows and requests out.

use coven_api::event::EventRecord;
use coven_api::message_content::MessageText;
use coven_api::session::SessionRecord;
use serde_json::{Value, json};

use super::entry::Block;
use super::*;
use crate::frame::theme::Theme;

const SESSION: &str = "018f0000-0000-7000-8000-000000000001";
const AREA: Rect = Rect { x: 0, y: 0, width: 40, height: 12 };

fn session() -> SessionId {
    SESSION.parse().expect("an id")
}

fn record(status: &str) -> SessionRecord {
    let time = "2026-01-01T00:00:00.000Z";
    serde_json::from_value(json!({
        "id": SESSION, "harness": "claude", "channel": "acp", "title": "t", "status": status, "exit_code": null,
        "pid": null, "project_root": "/p", "cwd": "/p", "repo_id": null, "created_at": time, "updated_at": time,
        "archived_at": null, "metadata": {},
    }))
    .expect("a session")
}

fn world(status: &str) -> World {
    let mut world = World::default();
    world.put_session(record(status));
    world
}

fn id(nth: u64) -> String {
    format!("018f0000-0000-7000-8000-{nth:012}")
}

fn message(number: u64, of: u64, role: &str, content: Value) -> MessageRecord {
    serde_json::from_value(json!({
        "number": number, "id": id(number), "message_id": id(of), "role": role, "at": "2026-01-01T00:00:00.000Z",
        "content": content,
    }))
    .expect("a message")
}

fn text(words: &str, is_partial: bool) -> Value {
    json!({ "type": "text", "text": words, "partial": is_partial, "replayed": false, "interrupted": false })
}

fn said(number: u64, words: &str) -> MessageRecord {
    message(number, number, "agent", text(words, false))
}

fn tool(number: u64, of: u64, status: &str) -> MessageRecord {
    let diff = json!({ "type": "diff", "path": "/p/a.rs", "old_text": "a\nb\n", "new_text": "a\nc\nd\n" });
    let result = json!({ "content": [diff], "raw_output": null, "terminals": [] });
    let content = json!({ "type": "tool", "tool_call_id": "c", "tool": "edit", "kind": "edit", "status": status,
        "args": { "path": "a.rs" }, "result": result, "locations": [], "replayed": false });
    message(number, of, "agent", content)
}

fn event(kind: &str, payload: Value) -> EventRecord {
    EventRecord {
        number: 1,
        kind: kind.to_owned(),
        at: Timestamp::from_millis(0),
        subject: SESSION.to_owned(),
        payload,
    }
}

fn arrives(pane: &mut ConversationPane, message: &MessageRecord) -> Vec<Effect> {
    pane.event(&event("message.added", json!({ "session_id": SESSION, "message": message })))
}

fn turn(pane: &mut ConversationPane, kind: &str) {
    pane.event(&event(kind, json!({ "session_id": SESSION, "stop_reason": "end_turn" })));
}

fn state(activity: &str, queued: usize) -> AcpStateRecord {
    let modes = json!({ "current_mode_id": "ask", "available_modes": [
        { "id": "ask", "name": "Ask", "description": null }, { "id": "code", "name": "Code", "description": null },
    ] });
    serde_json::from_value(json!({ "activity": activity, "queued": queued, "modes": modes })).expect("a state")
}

fn answer_messages(pane: &mut ConversationPane, effects: &[Effect], items: Vec<MessageRecord>) -> Vec<Effect> {
    let call = effects.iter().find_map(|effect| match effect {
        Effect::Call(call) if matches!(**call, Call::Messages { .. }) => Some(call),
        _ => None,
    });
    let next = items.last().map_or(0, |message| message.number);
    pane.answered(call.expect("messages are asked for"), &Ok(Answer::Messages(MessagesResponse { items, next })))
}

/// A pane with these messages, of an idle agent.
fn pane(items: Vec<MessageRecord>) -> ConversationPane {
    let (mut pane, effects) = ConversationPane::new(session(), Timestamp::from_millis(0));
    answer_messages(&mut pane, &effects, items);
    pane.answered(&Call::AcpState(session()), &Ok(Answer::AcpState(Box::new(state("idle", 0)))));
    pane
}

fn screen_in(pane: &ConversationPane, area: Rect, world: &World) -> Vec<String> {
    let mut buffer = ratatui::buffer::Buffer::empty(area);
    pane.draw(&mut buffer, area, Theme { has_colors: true }, world, true);
    let row = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(row).collect()
}

fn screen(pane: &ConversationPane) -> Vec<String> {
    screen_in(pane, AREA, &world("running"))
}

fn press(pane: &mut ConversationPane, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    match pane.key(KeyEvent::new(code, modifiers), AREA, &world("running")) {
        PaneResult::Done(effects) => effects,
        PaneResult::Notice(text) => panic!("a notice: {text}"),
        PaneResult::Ignored | PaneResult::Left => Vec::new(),
    }
}

fn types(pane: &mut ConversationPane, words: &str) {
    words.chars().for_each(|c| drop(press(pane, KeyCode::Char(c), KeyModifiers::NONE)));
}

fn prompt(words: &str) -> Call {
    Call::Prompt { session: session(), text: words.to_owned() }
}

#[test]
fn streamed_text_is_one_message_that_the_finished_one_replaces() {
    let mut pane = pane(vec![message(1, 1, "user", text("hi", false))]);
    for (number, chunk) in [(2, "Hel"), (3, "lo *w"), (4, "orld*")] {
        arrives(&mut pane, &message(number, 9, "agent", text(chunk, true)));
        // Read twice, for example after a reconnection: it is added once.
        arrives(&mut pane, &message(number, 9, "agent", text(chunk, true)));
    }
    assert_eq!(pane.transcript.blocks()[1..], [&Block::Text("Hello *world*".to_owned())]);
    arrives(&mut pane, &message(5, 9, "agent", text("Hello world!", false)));
    arrives(&mut pane, &message(6, 9, "agent", text("late", true)));
    assert_eq!(screen(&pane)[..3], ["› hi", "", "Hello world!"]);
}

#[test]
fn missed_messages_are_read_and_not_repeated() {
    let mut pane = pane(vec![said(1, "one")]);
    let effects = arrives(&mut pane, &said(4, "four"));
    answer_messages(&mut pane, &effects, vec![said(2, "two"), said(3, "three")]);
    // The announced message is asked for again.
    assert_eq!(pane.reading.as_ref().and_then(|query| query.after), Some(3));
    let effects = pane.connected();
    let again = answer_messages(&mut pane, &effects, vec![said(3, "three"), said(4, "four")]);
    assert_eq!((pane.transcript.blocks().len(), again.len()), (4, 0));
}

#[test]
fn a_prompt_stays_until_it_is_accepted_and_returns_on_an_error() {
    let mut pane = pane(Vec::new());
    types(&mut pane, "fix it");
    assert_eq!(press(&mut pane, KeyCode::Enter, KeyModifiers::NONE), [Effect::call(prompt("fix it"))]);
    assert_eq!((pane.draft(), screen(&pane)[11].as_str()), ("fix it", "› fix it"));
    types(&mut pane, "then rest");
    assert_eq!(press(&mut pane, KeyCode::Enter, KeyModifiers::NONE), [], "prompts keep their order");
    assert_eq!(pane.answered(&prompt("fix it"), &Ok(Answer::Done)), [Effect::call(prompt("then rest"))]);
    types(&mut pane, "more");
    pane.answered(&prompt("then rest"), &Err("the daemon is not running".to_owned()));
    assert_eq!(pane.editor.text(), "then rest\nmore");
    assert!(screen(&pane).concat().contains("not sent: the daemon is not running"), "{:?}", screen(&pane));
    press(&mut pane, KeyCode::Enter, KeyModifiers::NONE);
    pane.answered(&prompt("then rest\nmore"), &Ok(Answer::Done));
    assert_eq!(pane.draft(), "");
}

#[test]
fn the_end_stays_visible_until_the_user_scrolls_up() {
    let mut pane = pane((1..=30).map(|nth| said(nth, &format!("line {nth}"))).collect());
    assert_eq!(screen(&pane)[9], "line 30");
    arrives(&mut pane, &said(31, "line 31"));
    assert_eq!(screen(&pane)[9], "line 31");
    pane.scroll(-4, AREA);
    let before = screen(&pane);
    assert_eq!((before[9].as_str(), before[10].as_str()), ("line 29", "↓ 4 lines below · idle · mode: Ask"));
    arrives(&mut pane, &said(32, "line 32"));
    let after = screen(&pane);
    assert_eq!((&after[..10], after[10].as_str()), (&before[..10], "↓ 2 new lines below · idle · mode: Ask"));
    press(&mut pane, KeyCode::PageDown, KeyModifiers::NONE);
    assert_eq!((screen(&pane)[9].as_str(), screen(&pane)[10].as_str()), ("line 32", "idle · mode: Ask"));
}

#[test]
fn older_messages_are_read_at_the_top_and_memory_has_a_bound() {
    let page = |from: u64| (from..from + PAGE as u64).map(|nth| said(nth, "words")).collect::<Vec<_>>();
    let mut pane = pane(page(10_000));
    screen(&pane);
    pane.scroll(-100_000, AREA);
    for nth in 1..=5 {
        let effects = pane.tick(Timestamp::from_millis(nth));
        answer_messages(&mut pane, &effects, page(10_000 - PAGE as u64 * nth as u64));
        pane.scroll(-100_000, AREA);
    }
    assert_eq!(pane.tick(Timestamp::from_millis(9)), [], "there is no room for more");
    assert!(screen(&pane)[10].contains("older not shown"));
    for nth in 10_300..13_000 {
        arrives(&mut pane, &said(nth, "words"));
    }
    assert!(pane.transcript.blocks().len() <= 2_000);
    screen(&pane);
}

#[test]
fn tool_calls_are_folded_and_a_plan_and_failures_are_shown() {
    let steps = json!([{ "content": "read", "status": "completed", "priority": null },
        { "content": "write", "status": "in_progress", "priority": null }]);
    let failure = json!({ "type": "error", "message": "gone", "code": null, "exit_code": 3, "stderr": "x\ny" });
    let mut pane = pane(vec![
        tool(1, 1, "completed"),
        tool(2, 2, "in_progress"),
        message(3, 3, "agent", json!({ "type": "plan", "steps": steps, "replayed": false })),
        message(4, 4, "system", failure),
    ]);
    let area = Rect { height: 40, ..AREA };
    let folded = screen_in(&pane, area, &world("running"));
    assert_eq!(
        folded[..10],
        [
            "● edit: a.rs  +2 −1  done",
            "● edit: a.rs  +2 −1  not finished",
            "",
            "plan 1/2",
            "  ✔ read",
            "  ▸ write",
            "",
            "✖ gone",
            "  exit code 3",
            "  x"
        ]
    );
    press(&mut pane, KeyCode::Char('o'), KeyModifiers::CONTROL);
    let unfolded = screen_in(&pane, area, &world("running"));
    assert_eq!(unfolded[1..5], ["  /p/a.rs", "  - b", "  + c", "  + d"]);
}

#[test]
fn a_prompt_of_a_running_turn_waits_behind_the_answer() {
    let mut pane = pane(vec![message(1, 1, "user", text("first", false))]);
    turn(&mut pane, "turn.started");
    arrives(&mut pane, &message(2, 2, "user", text("second", false)));
    arrives(&mut pane, &said(3, "answer"));
    assert_eq!(screen(&pane)[2..5], ["answer", "", "queued › second"]);
    pane.answered(&Call::AcpState(session()), &Ok(Answer::AcpState(Box::new(state("working", 1)))));
    assert!(screen(&pane)[10].starts_with("working · 1 queued · mode: Ask"));
    // Its turn starts: the daemon repeats it.
    arrives(&mut pane, &message(4, 2, "user", text("second", false)));
    assert_eq!(screen(&pane)[2..5], ["answer", "", "› second"]);
}

#[test]
fn escape_cancels_the_turn_only_if_the_editor_is_empty() {
    let mut pane = pane(Vec::new());
    turn(&mut pane, "turn.started");
    types(&mut pane, "x");
    assert_eq!(press(&mut pane, KeyCode::Esc, KeyModifiers::NONE), []);
    press(&mut pane, KeyCode::Backspace, KeyModifiers::NONE);
    assert_eq!(press(&mut pane, KeyCode::Esc, KeyModifiers::NONE), [Effect::call(Call::CancelTurn(session()))]);
    assert!(screen(&pane)[10].starts_with("cancelling…"));
    turn(&mut pane, "turn.ended");
    let result = pane.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE), AREA, &world("running"));
    assert!(matches!(result, PaneResult::Notice(text) if text == "no turn is running"));
}

#[test]
fn a_mode_is_chosen_from_a_list() {
    let mut pane = pane(Vec::new());
    press(&mut pane, KeyCode::Char('t'), KeyModifiers::CONTROL);
    assert!(screen(&pane).concat().contains("▌1 ● mode: Ask"), "{:?}", screen(&pane));
    let effects = press(&mut pane, KeyCode::Char('2'), KeyModifiers::NONE);
    assert_eq!(effects, [Effect::call(Call::Mode { session: session(), mode: "code".to_owned() })]);
    assert!(pane.chooser.is_none());
}

#[test]
fn a_session_that_has_ended_is_read_only() {
    let mut pane = pane(vec![said(1, "bye")]);
    assert_eq!(screen_in(&pane, AREA, &world("completed"))[11], "session completed; read-only");
    let result = pane.key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE), AREA, &world("completed"));
    assert!(matches!(result, PaneResult::Notice(_)));
    assert_eq!(pane.draft(), "");
}

#[test]
fn it_is_drawn_at_any_size_and_hostile_text_is_harmless() {
    let hostile = "a\u{1b}[2J\u{1b}]0;x\u{7}\u{202e}b\r\n\u{9b}31m`\u{1b}c`\t漢字👩‍👩‍👧";
    let thought = serde_json::to_value(MessageText::whole(hostile)).expect("plain data");
    let mut thought = thought;
    thought["type"] = json!("thought");
    let mut hostile_tool = tool(4, 4, "failed");
    if let coven_api::message_content::MessageContent::Tool(call) = &mut hostile_tool.content {
        (call.tool, call.args) = (hostile.to_owned(), json!({ "command": hostile }));
    }
    let mut pane = pane(vec![
        message(1, 1, "user", text(hostile, false)),
        said(2, hostile),
        message(3, 3, "agent", thought),
        hostile_tool,
        message(5, 5, "system", json!({ "type": "cancelled", "reason": hostile })),
        message(6, 6, "agent", json!({ "type": "update", "update": { "type": hostile } })),
    ]);
    pane.problem = Some(hostile.to_owned());
    for is_unfolded in [false, true] {
        pane.transcript.is_unfolded = is_unfolded;
        for (width, height) in (1..=40).flat_map(|width| (1..=12).map(move |height| (width, height))) {
            let area = Rect { x: 0, y: 0, width, height };
            let mut shown = Vec::new();
            for (chooser, by) in [(None, -3), (Some(1), 2), (None, 1)] {
                pane.chooser = chooser;
                shown.extend(screen_in(&pane, area, &world("running")));
                shown.extend(screen_in(&pane, area, &world("failed")));
                pane.scroll(by, area);
            }
            assert!(!shown.concat().chars().any(crate::frame::text::is_unsafe), "{width}×{height}");
        }
    }
}
