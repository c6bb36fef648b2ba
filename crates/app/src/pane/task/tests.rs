use serde_json::json;

use super::diff::tests::{PATCH, response};
use super::*;

const ID: &str = "0190f3a2-0000-7000-8000-000000000001";
const AREA: Rect = Rect { x: 0, y: 0, width: 70, height: 20 };

fn world(status: &str) -> World {
    let task = json!({
        "id": ID, "title": "Fix the parser", "body": "# Why\n\nit *fails*", "type": "bug", "priority": 1,
        "depends_on": [], "tags": ["core"], "status": status, "args": [], "harness": "codex",
        "base_commit": "c0ffee", "base_branch": "main",
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
    });
    let mut world = World::default();
    world.add_tasks(vec![serde_json::from_value(task).expect("a task")]);
    world.is_complete = true;
    world
}

fn pane(patch: &str) -> TaskPane {
    let (mut pane, effects) = TaskPane::new(ID.parse().expect("an id"));
    assert_eq!(effects, [Effect::call(Call::Diff(pane.id()))]);
    read(&mut pane, patch);
    pane
}

fn read(pane: &mut TaskPane, patch: &str) {
    let answer = Answer::Diff(Box::new(response(&[("src/a.rs", 3, 2), ("b c.txt", 1, 0)], patch)));
    assert!(pane.answered(&Call::Diff(pane.id()), &Ok(answer)).is_empty());
}

fn press(pane: &mut TaskPane, world: &World, code: KeyCode) -> PaneResult {
    pane.key(KeyEvent::new(code, KeyModifiers::NONE), AREA, world)
}

fn typed(pane: &mut TaskPane, world: &World, keys: &str) {
    keys.chars().for_each(|c| drop(press(pane, world, KeyCode::Char(c))));
}

/// Moves to the row that shows a line with this text.
fn go_to_line(pane: &mut TaskPane, text: &str) {
    let diff = pane.diff.as_ref().expect("a diff");
    let is_it = |row: &RowKind| matches!(row, RowKind::Line(_, line) if diff.text(*line) == text);
    pane.cursor = pane.rows.iter().position(is_it).expect("the line") as isize;
}

fn drawn(pane: &TaskPane, world: &World, area: Rect) -> Vec<String> {
    let mut buffer = Buffer::empty(area);
    let cursor = pane.draw(&mut buffer, area, Theme { has_colors: true }, world, true);
    assert!(cursor.is_none_or(|cursor| cursor.x < area.right() && cursor.y < area.bottom()));
    let row = |y| (0..area.width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..area.height).map(row).collect()
}

fn notice(result: PaneResult) -> String {
    match result {
        PaneResult::Notice(text) => text,
        _ => panic!("no notice"),
    }
}

fn action(result: PaneResult) -> TaskAction {
    match result {
        PaneResult::Done(effects) => match effects.as_slice() {
            [Effect::Call(call)] => match call.as_ref() {
                Call::Task { action, .. } => action.clone(),
                _ => panic!("not about a task"),
            },
            _ => panic!("no call"),
        },
        _ => panic!("nothing done"),
    }
}

#[test]
fn the_task_and_its_changes_are_shown() {
    let (mut pane, world) = (pane(PATCH), world("pending_merge"));
    let area = Rect { height: 30, ..AREA };
    let shown = drawn(&pane, &world, area);
    assert!(shown[0].starts_with("task 0190f3a2") && shown[0].ends_with("pending merge"), "{shown:#?}");
    assert_eq!(shown[2], " pending merge · 0190f3a2 · bug · P1 · codex · core");
    for row in
        [" changes 2 files +4 -2 · coven/1 from main", " ▾ src/a.rs +3 -2", "   1  one", "   2 -two", "   4 +three"]
    {
        assert!(shown.iter().any(|it| it == row), "{row:?} is not in {shown:#?}");
    }
    go_to_line(&mut pane, "x");
    assert!(drawn(&pane, &world, AREA).iter().any(|row| row == "▌  1 +x"));
    assert!(drawn(&pane, &world, Rect { height: 6, ..AREA })[0].starts_with("src/a.rs 1/2"));
}

#[test]
fn comments_become_one_rejection_and_are_gone_once_it_is_sent() {
    let (mut pane, world) = (pane(PATCH), world("pending_merge"));
    go_to_line(&mut pane, "two");
    typed(&mut pane, &world, "ckeep it");
    press(&mut pane, &world, KeyCode::Enter);
    go_to_line(&mut pane, "x");
    typed(&mut pane, &world, "cdropped");
    press(&mut pane, &world, KeyCode::Esc);
    typed(&mut pane, &world, "cwhy x?");
    press(&mut pane, &world, KeyCode::Enter);
    assert!(drawn(&pane, &world, Rect { height: 30, ..AREA }).iter().any(|row| row == "     ┃ keep it"));
    typed(&mut pane, &world, "Rsplit it");
    let sent = action(press(&mut pane, &world, KeyCode::Enter));
    let prompt = "split it\n\nb c.txt:1: why x?\nsrc/a.rs:2 (removed): keep it";
    assert_eq!(sent, TaskAction::Reject(prompt.to_owned()));
    let call = Call::Task { id: pane.id(), action: sent };
    pane.answered(&call, &Err("the daemon is gone".to_owned()));
    assert_eq!(pane.draft.comments.len(), 2, "kept until they have arrived");
    typed(&mut pane, &world, "Rsplit it");
    press(&mut pane, &world, KeyCode::Enter);
    pane.answered(&call, &Ok(Answer::Done));
    assert!(pane.take_draft().is_empty());
    typed(&mut pane, &world, "R");
    assert!(notice(press(&mut pane, &world, KeyCode::Enter)).starts_with("say what to change"));
}

#[test]
fn a_comment_follows_its_line_and_an_empty_text_removes_it() {
    let (mut pane, world) = (pane(PATCH), world("pending_merge"));
    for line in ["three", "TWO"] {
        go_to_line(&mut pane, line);
        typed(&mut pane, &world, "cabout ");
        typed(&mut pane, &world, line);
        press(&mut pane, &world, KeyCode::Enter);
    }
    let draft = pane.take_draft();
    assert!(pane.draft.comments.is_empty() && !draft.is_empty());
    let (mut pane, _) = TaskPane::new(pane.id());
    pane.set_draft(draft);
    // Another line comes before, and "TWO" is changed.
    let changed = PATCH.replace("+1,4 @@ fn a\n", "+1,5 @@ fn a\n+zero\n").replace("+TWO\n", "+Two\n");
    read(&mut pane, &changed);
    let lines: Vec<_> = pane.draft.comments.iter().map(|comment| (comment.number, comment.line.is_some())).collect();
    assert_eq!(lines, [(5, true), (2, false)]);
    let shown = drawn(&pane, &world, Rect { height: 40, ..AREA });
    let at = |text: &str| shown.iter().position(|row| row.contains(text)).expect("the row is shown");
    assert_eq!(at("about three"), at("+three") + 1);
    assert_eq!(at("src/a.rs:2, line changed: about TWO"), at("▾ b c.txt") - 1);
    pane.go_to(RowKind::Comment(0));
    press(&mut pane, &world, KeyCode::Enter);
    pane.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL), AREA, &world);
    press(&mut pane, &world, KeyCode::Enter);
    assert_eq!(pane.draft.comments.len(), 1);
}

#[test]
fn approving_asks_and_warns_of_comments_that_were_not_sent() {
    let (mut pane, world) = (pane(PATCH), world("pending_merge"));
    assert!(matches!(press(&mut pane, &world, KeyCode::Char('p')), PaneResult::Done(effects) if effects.is_empty()));
    assert!(drawn(&pane, &world, AREA)[19].starts_with("approve and merge? y n"));
    press(&mut pane, &world, KeyCode::Char('n'));
    typed(&mut pane, &world, "p");
    assert_eq!(action(press(&mut pane, &world, KeyCode::Char('y'))), TaskAction::Approve);
    go_to_line(&mut pane, "two");
    typed(&mut pane, &world, "cno");
    press(&mut pane, &world, KeyCode::Enter);
    assert!(notice(press(&mut pane, &world, KeyCode::Char('p'))).starts_with("not sent: 1 comment;"));
    assert_eq!(action(press(&mut pane, &world, KeyCode::Char('y'))), TaskAction::Approve);
}

#[test]
fn what_the_state_does_not_allow_says_what_is_possible() {
    let (mut pane, blocked) = (pane(PATCH), world("blocked"));
    let why = notice(press(&mut pane, &blocked, KeyCode::Char('p')));
    assert_eq!(why, "cannot approve: the task is blocked; possible now: unblock (u)");
    assert_eq!(action(press(&mut pane, &blocked, KeyCode::Char('u'))), TaskAction::Unblock);
    let working = world("in_progress");
    typed(&mut pane, &working, "bwrong base");
    assert_eq!(action(press(&mut pane, &working, KeyCode::Enter)), TaskAction::Block(Some("wrong base".to_owned())));
    let open = world("open");
    assert!(notice(press(&mut pane, &open, KeyCode::Char('s'))).starts_with("Esc"));
    pane.set_launch(LaunchContext::default());
    assert!(matches!(action(press(&mut pane, &open, KeyCode::Char('s'))), TaskAction::Start(_)));
    assert!(matches!(press(&mut pane, &open, KeyCode::Esc), PaneResult::Left));
}

#[test]
fn a_change_of_the_task_reads_the_changes_again_once() {
    let mut pane = pane(PATCH);
    let event = |kind: &str, subject: &str| EventRecord {
        number: 1,
        kind: kind.to_owned(),
        at: "2026-01-01T00:00:00.000Z".parse().expect("a time"),
        subject: subject.to_owned(),
        payload: json!({}),
    };
    assert!(pane.event(&event("task.lease_renewed", ID)).is_empty());
    assert!(pane.event(&event("task.updated", "0190f3a2-0000-7000-8000-000000000002")).is_empty());
    assert_eq!(pane.event(&event("task.pending_merge", ID)).len(), 1);
    assert!(pane.event(&event("task.updated", ID)).is_empty(), "one at a time");
    let failed = pane.answered(&Call::Diff(pane.id()), &Err("no such branch".to_owned()));
    assert_eq!(failed.len(), 1, "it changed meanwhile");
    let shown = drawn(&pane, &world("pending_merge"), AREA);
    assert!(shown.iter().any(|row| row == " cannot read the changes: no such branch"), "{shown:#?}");
    assert!(shown.iter().any(|row| row.contains("+three")), "the last known changes stay");
}

#[test]
fn the_steps_and_the_merge_are_shown_as_events_report_them() {
    let (mut pane, world) = (pane(PATCH), world("in_progress"));
    let mut run = |kind: &str, status: &str, step: &str| {
        let workflow = json!({
            "id": "0190f3a2-0000-7000-8000-00000000000a", "task_id": ID, "agent_id": null, "name": "default",
            "status": status, "step": 0, "step_name": step, "error": null, "approved_by": null,
            "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z", "ended_at": null,
        });
        let at = "2026-01-01T00:00:00.000Z".parse().expect("a time");
        pane.event(&EventRecord {
            number: 1,
            kind: kind.into(),
            at,
            subject: "x".into(),
            payload: json!({ "workflow": workflow }),
        });
    };
    run("workflow.started", "running", "work");
    run("workflow.step.started", "running", "test");
    run("workflow.failed", "failed", "test");
    let shown = drawn(&pane, &world, AREA);
    for row in [" workflow: default", " step: work ✓", " step: test failed"] {
        assert!(shown.iter().any(|it| it == row), "{row:?} is not in {shown:#?}");
    }
}

#[test]
fn keys_move_by_rows_pages_and_files_and_fold() {
    let (mut pane, world) = (pane(PATCH), world("pending_merge"));
    drawn(&pane, &world, AREA);
    typed(&mut pane, &world, "]");
    assert_eq!(pane.row(), Some(RowKind::File(0)));
    typed(&mut pane, &world, "J");
    assert_eq!(pane.row(), Some(RowKind::File(1)));
    typed(&mut pane, &world, "[j");
    assert!(matches!(pane.row(), Some(RowKind::Line(0, _))));
    press(&mut pane, &world, KeyCode::Enter);
    assert_eq!(pane.row(), Some(RowKind::File(0)));
    assert!(!pane.rows.iter().any(|row| matches!(row, RowKind::Line(0, _))));
    typed(&mut pane, &world, "G");
    assert!(matches!(pane.row(), Some(RowKind::Line(1, _))));
    typed(&mut pane, &world, "g");
    assert_eq!((pane.cursor, pane.row()), (pane.top, None));
    let first = pane.top;
    pane.scroll(2, Rect { height: 8, ..AREA });
    assert_eq!((pane.top, pane.cursor), (first + 2, first + 2), "the cursor stays visible");
    pane.scroll(-1000, AREA);
    pane.scroll(3, AREA);
    drawn(&pane, &world, AREA);
    press(&mut pane, &world, KeyCode::PageDown);
}

#[test]
fn any_size_and_hostile_text_can_be_drawn() {
    let patch = "diff --git a/e\u{1b}[2J\u{202e}漢\tx.rs b/e\u{1b}[2J\u{202e}漢\tx.rs\n@@ -1,2 +1,2 @@\n \t漢字\u{1b}[31m👩‍👩‍👧\r\n-\u{7}\n+\u{202e}b\n";
    let (mut pane, world) = (pane(patch), world("pending_merge"));
    typed(&mut pane, &world, "]jj");
    typed(&mut pane, &world, "cx");
    press(&mut pane, &world, KeyCode::Enter);
    for keys in ["", "R", "p", "\u{1b}", "gg", "G"] {
        for key in keys.chars() {
            let code = if key == '\u{1b}' { KeyCode::Esc } else { KeyCode::Char(key) };
            press(&mut pane, &world, code);
        }
        for width in (1..24).chain([39, 40, 41, 70, 119]) {
            for height in 1..9 {
                let area = Rect { x: 0, y: 0, width, height };
                let shown = drawn(&pane, &world, area).concat();
                assert!(!shown.chars().any(text::is_unsafe), "{shown:?}");
                pane.scroll(1, area);
            }
        }
        drawn(&pane, &World::default(), Rect { x: 0, y: 0, width: 9, height: 3 });
        pane.key(KeyEvent::new(KeyCode::PageDown, KeyModifiers::NONE), Rect::default(), &world);
    }
}

#[test]
fn a_frame_of_a_huge_diff_takes_no_longer_than_of_a_small_one() {
    let lines = "+let x = 1;\n".repeat(150_000);
    let mut pane = pane(&format!("diff --git a/src/a.rs b/src/a.rs\n@@ -0,0 +1,150000 @@\n{lines}"));
    let world = world("pending_merge");
    typed(&mut pane, &world, "]");
    press(&mut pane, &world, KeyCode::Enter);
    typed(&mut pane, &world, "G");
    let start = std::time::Instant::now();
    (0..100).for_each(|_| drop(drawn(&pane, &world, AREA)));
    assert!(start.elapsed().as_millis() < 2_000, "{:?} for 100 frames", start.elapsed());
}
