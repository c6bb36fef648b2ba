//! Typing a prompt.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::editor::{Edited, Editor};
use super::row::Row;

fn typed(text: &str) -> Editor {
    let mut editor = Editor::default();
    editor.paste(text);
    editor
}

fn press(editor: &mut Editor, keys: &[KeyCode]) -> Edited {
    keys.iter().map(|key| editor.key(KeyEvent::from(*key))).last().expect("a key")
}

fn control(editor: &mut Editor, key: char) -> Edited {
    editor.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL))
}

fn view(editor: &Editor, columns: usize, rows: usize) -> (Vec<String>, (usize, usize)) {
    let (rows, cursor) = editor.view(columns, rows);
    (rows.iter().map(Row::text).collect(), cursor)
}

#[test]
fn text_is_edited_at_the_cursor() {
    let mut editor = typed("né");
    press(&mut editor, &[KeyCode::Left, KeyCode::Char('漢'), KeyCode::Right, KeyCode::Backspace]);
    assert_eq!(editor.text(), "n漢");
    control(&mut editor, 'a');
    press(&mut editor, &[KeyCode::Delete, KeyCode::End, KeyCode::Char('!')]);
    assert_eq!(editor.text(), "漢!");
    // An accent that is a character of its own goes with its letter.
    let mut accent = typed("e\u{301}x");
    press(&mut accent, &[KeyCode::Left, KeyCode::Backspace]);
    assert_eq!(accent.text(), "x");
}

#[test]
fn control_keys_work_on_words_and_lines() {
    let mut editor = typed("first\nfix the  ");
    control(&mut editor, 'w');
    assert_eq!(editor.text(), "first\nfix ");
    control(&mut editor, 'u');
    assert_eq!(editor.text(), "first\n");
    let mut editor = typed("one two");
    control(&mut editor, 'a');
    editor.key(KeyEvent::new(KeyCode::Right, KeyModifiers::CONTROL));
    control(&mut editor, 'k');
    assert_eq!(editor.text(), "one");
    assert_eq!(control(&mut editor, 'x'), Edited::Nothing);
}

#[test]
fn enter_sends_and_several_lines_are_typed_otherwise() {
    let mut editor = typed("one");
    editor.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
    press(&mut editor, &[KeyCode::Char('2'), KeyCode::Char('\\')]);
    assert_eq!(press(&mut editor, &[KeyCode::Enter]), Edited::Changed, "a backslash goes on");
    control(&mut editor, 'j');
    editor.paste("a\r\nb\x1b[31m\tc\r");
    assert_eq!(press(&mut editor, &[KeyCode::Enter]), Edited::Entered("one\n2\n\na\nb[31m\tc".into()));
    assert!(editor.is_empty());
    editor.paste("  \n ");
    assert_eq!(press(&mut editor, &[KeyCode::Enter]), Edited::Changed, "nothing to send");
}

#[test]
fn earlier_prompts_are_at_hand_and_a_draft_is_kept() {
    let mut editor = Editor::default();
    ["one", "one", "two"].iter().for_each(|prompt| editor.remember(prompt));
    editor.paste("draft");
    press(&mut editor, &[KeyCode::Up]);
    assert_eq!(editor.text(), "two");
    press(&mut editor, &[KeyCode::Up, KeyCode::Up]);
    assert_eq!(editor.text(), "one");
    press(&mut editor, &[KeyCode::Down, KeyCode::Down]);
    assert_eq!(editor.text(), "draft");
    assert_eq!(press(&mut editor, &[KeyCode::Down]), Edited::Nothing);
}

#[test]
fn arrows_move_between_lines_before_they_recall() {
    let mut editor = Editor::default();
    editor.remember("past");
    editor.paste("漢字\nabcdef\nx");
    press(&mut editor, &[KeyCode::Up, KeyCode::End, KeyCode::Up]);
    assert_eq!(view(&editor, 20, 5).1, (0, 6), "the line above is shorter");
    press(&mut editor, &[KeyCode::Down]);
    assert_eq!(view(&editor, 20, 5).1, (1, 6));
    press(&mut editor, &[KeyCode::Up, KeyCode::Up]);
    assert_eq!(editor.text(), "past");
}

#[test]
fn the_cursor_is_always_seen_and_counted_in_columns() {
    assert_eq!(view(&Editor::default(), 20, 5), (vec!["› ".into()], (0, 2)));
    assert_eq!(view(&typed("漢字"), 20, 5), (vec!["› 漢字".into()], (0, 6)));
    let long = typed("abcdefghij");
    assert_eq!(view(&long, 7, 5), (vec!["› abcd".into(), "  efgh".into(), "  ij".into()], (2, 4)));
    assert_eq!(view(&long, 7, 2), (vec!["  efgh".into(), "  ij".into()], (1, 4)));
    assert_eq!(view(&typed("abcd"), 7, 2).1, (0, 6), "behind the last column there is room");
    assert_eq!(view(&typed("a\tb"), 20, 2), (vec!["› a   b".into()], (0, 7)));
}
