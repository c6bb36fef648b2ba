//! Keys, mouse events and pasted text as the bytes that a program in a terminal expects.

use coven_screen::{InputModes, MouseEvents};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

const DISAMBIGUATE: u8 = 1;
const REPORT_ALL: u8 = 8;

/// Returns the bytes of a key; nothing for a release or a key that programs do not get.
pub fn key(event: KeyEvent, modes: InputModes) -> Vec<u8> {
    if event.kind == KeyEventKind::Release {
        return Vec::new();
    }
    // Shift is part of a character.
    let modifiers = modifiers(event.modifiers);
    let csi_modifiers = modifiers + 1;
    match event.code {
        KeyCode::Char(c) => character(c, event.modifiers, modes),
        KeyCode::Enter => functional(13, b"\r", csi_modifiers, modes),
        KeyCode::Tab => functional(9, b"\t", csi_modifiers, modes),
        KeyCode::BackTab if modes.keyboard_flags & DISAMBIGUATE != 0 => b"\x1b[9;2u".to_vec(),
        KeyCode::BackTab => b"\x1b[Z".to_vec(),
        KeyCode::Backspace => functional(127, if modifiers & 4 != 0 { b"\x08" } else { b"\x7f" }, csi_modifiers, modes),
        KeyCode::Esc if modes.keyboard_flags & DISAMBIGUATE != 0 => csi_u(27, csi_modifiers),
        KeyCode::Esc => escaped(b"\x1b", modifiers),
        KeyCode::Up => cursor(b'A', csi_modifiers, modes),
        KeyCode::Down => cursor(b'B', csi_modifiers, modes),
        KeyCode::Right => cursor(b'C', csi_modifiers, modes),
        KeyCode::Left => cursor(b'D', csi_modifiers, modes),
        KeyCode::Home => cursor(b'H', csi_modifiers, modes),
        KeyCode::End => cursor(b'F', csi_modifiers, modes),
        KeyCode::Insert => tilde(2, csi_modifiers),
        KeyCode::Delete => tilde(3, csi_modifiers),
        KeyCode::PageUp => tilde(5, csi_modifiers),
        KeyCode::PageDown => tilde(6, csi_modifiers),
        KeyCode::F(number @ 1..=4) if csi_modifiers == 1 => vec![0x1b, b'O', b'P' + number - 1],
        KeyCode::F(number @ 1..=4) => format!("\x1b[1;{csi_modifiers}{}", char::from(b'P' + number - 1)).into_bytes(),
        KeyCode::F(number @ 5..=20) => {
            const CODES: [u8; 16] = [15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34];
            tilde(CODES[usize::from(number - 5)], csi_modifiers)
        }
        _ => Vec::new(),
    }
}

/// The modifiers in the bits of CSI sequences, less one.
const fn modifiers(held: KeyModifiers) -> u8 {
    let mut bits = 0;
    if held.contains(KeyModifiers::SHIFT) {
        bits |= 1;
    }
    if held.contains(KeyModifiers::ALT) {
        bits |= 2;
    }
    if held.contains(KeyModifiers::CONTROL) {
        bits |= 4;
    }
    bits
}

fn character(c: char, held: KeyModifiers, modes: InputModes) -> Vec<u8> {
    // Terminals send Ctrl with these keys as Ctrl with a digit.
    let c = match c {
        '4'..='7' if held.contains(KeyModifiers::CONTROL) && modes.keyboard_flags == 0 => {
            ['\\', ']', '^', '_'][c as usize - '4' as usize]
        }
        c => c,
    };
    let bits = modifiers(held);
    let is_special = bits & !1 != 0;
    if modes.keyboard_flags & REPORT_ALL != 0 || (modes.keyboard_flags & DISAMBIGUATE != 0 && is_special) {
        let code = c.to_lowercase().next().unwrap_or(c);
        return csi_u(u32::from(code), bits + 1);
    }
    let mut bytes = Vec::new();
    if held.contains(KeyModifiers::ALT) {
        bytes.push(0x1b);
    }
    match c {
        _ if !held.contains(KeyModifiers::CONTROL) => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        'a'..='z' | 'A'..='Z' | '@' | '[' | '\\' | ']' | '^' | '_' => bytes.push(c as u8 & 0x1f),
        ' ' | '2' => bytes.push(0),
        '3' => bytes.push(0x1b),
        '/' => bytes.push(0x1f),
        '8' | '?' => bytes.push(0x7f),
        c => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
    bytes
}

/// Enter, Tab and Backspace: with a modifier they have an own sequence if the program asked for it.
fn functional(code: u32, plain: &[u8], csi_modifiers: u8, modes: InputModes) -> Vec<u8> {
    let is_modified = csi_modifiers > 1;
    match modes.keyboard_flags {
        flags if flags & REPORT_ALL != 0 || (flags & DISAMBIGUATE != 0 && is_modified) => csi_u(code, csi_modifiers),
        _ => escaped(plain, csi_modifiers - 1),
    }
}

fn escaped(plain: &[u8], modifiers: u8) -> Vec<u8> {
    if modifiers & 2 != 0 { [b"\x1b", plain].concat() } else { plain.to_vec() }
}

fn csi_u(code: u32, csi_modifiers: u8) -> Vec<u8> {
    match csi_modifiers {
        1 => format!("\x1b[{code}u"),
        held => format!("\x1b[{code};{held}u"),
    }
    .into_bytes()
}

fn cursor(end: u8, csi_modifiers: u8, modes: InputModes) -> Vec<u8> {
    match csi_modifiers {
        1 if modes.app_cursor_keys => vec![0x1b, b'O', end],
        1 => vec![0x1b, b'[', end],
        held => format!("\x1b[1;{held}{}", char::from(end)).into_bytes(),
    }
}

fn tilde(code: u8, csi_modifiers: u8) -> Vec<u8> {
    match csi_modifiers {
        1 => format!("\x1b[{code}~"),
        held => format!("\x1b[{code};{held}~"),
    }
    .into_bytes()
}

/// Returns pasted text, between markers if the program wants them. The text cannot end its own markers.
pub fn paste(text: &str, modes: InputModes) -> Vec<u8> {
    if !modes.bracketed_paste {
        return text.replace("\r\n", "\r").replace('\n', "\r").into_bytes();
    }
    let clean = text.replace("\x1b[201~", "");
    [b"\x1b[200~", clean.as_bytes(), b"\x1b[201~"].concat()
}

/// Returns the bytes of a mouse event at a cell of the pane, if the program wants it.
pub fn mouse(event: MouseEvent, col: u16, row: u16, modes: InputModes) -> Vec<u8> {
    let button = |button: MouseButton| match button {
        MouseButton::Left => 0,
        MouseButton::Middle => 1,
        MouseButton::Right => 2,
    };
    let (code, wanted, is_release) = match event.kind {
        MouseEventKind::Down(it) => (button(it), MouseEvents::Presses, false),
        MouseEventKind::Up(it) => (button(it), MouseEvents::Buttons, true),
        MouseEventKind::Drag(it) => (button(it) + 32, MouseEvents::Drags, false),
        MouseEventKind::Moved => (35, MouseEvents::All, false),
        MouseEventKind::ScrollUp => (64, MouseEvents::Buttons, false),
        MouseEventKind::ScrollDown => (65, MouseEvents::Buttons, false),
        MouseEventKind::ScrollLeft => (66, MouseEvents::Buttons, false),
        MouseEventKind::ScrollRight => (67, MouseEvents::Buttons, false),
    };
    if modes.mouse < wanted {
        return Vec::new();
    }
    let code = code + (modifiers(event.modifiers) << 2);
    let (col, row) = (col + 1, row + 1);
    if modes.sgr_mouse {
        return format!("\x1b[<{code};{col};{row}{}", if is_release { 'm' } else { 'M' }).into_bytes();
    }
    // The older form has one byte for each number.
    let code = if is_release { 3 } else { code };
    match (u8::try_from(col + 32), u8::try_from(row + 32)) {
        (Ok(col), Ok(row)) => vec![0x1b, b'[', b'M', code + 32, col, row],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(code: KeyCode, held: KeyModifiers, modes: InputModes) -> String {
        String::from_utf8(key(KeyEvent::new(code, held), modes)).expect("text")
    }

    #[test]
    fn keys_have_the_bytes_of_a_common_terminal() {
        let plain = InputModes::default();
        for (code, held, bytes) in [
            (KeyCode::Char('é'), KeyModifiers::NONE, "é"),
            (KeyCode::Char('A'), KeyModifiers::SHIFT, "A"),
            (KeyCode::Char('c'), KeyModifiers::CONTROL, "\x03"),
            (KeyCode::Char('4'), KeyModifiers::CONTROL, "\x1c"),
            (KeyCode::Char(' '), KeyModifiers::CONTROL, "\0"),
            (KeyCode::Char('f'), KeyModifiers::ALT, "\x1bf"),
            (KeyCode::Enter, KeyModifiers::NONE, "\r"),
            (KeyCode::Enter, KeyModifiers::ALT, "\x1b\r"),
            (KeyCode::Backspace, KeyModifiers::NONE, "\x7f"),
            (KeyCode::BackTab, KeyModifiers::SHIFT, "\x1b[Z"),
            (KeyCode::Up, KeyModifiers::NONE, "\x1b[A"),
            (KeyCode::Up, KeyModifiers::CONTROL, "\x1b[1;5A"),
            (KeyCode::Delete, KeyModifiers::NONE, "\x1b[3~"),
            (KeyCode::F(1), KeyModifiers::NONE, "\x1bOP"),
            (KeyCode::F(5), KeyModifiers::SHIFT, "\x1b[15;2~"),
            (KeyCode::F(12), KeyModifiers::NONE, "\x1b[24~"),
        ] {
            assert_eq!(sent(code, held, plain), bytes, "{code:?} {held:?}");
        }
        let app = InputModes { app_cursor_keys: true, ..plain };
        assert_eq!(sent(KeyCode::Left, KeyModifiers::NONE, app), "\x1bOD");
    }

    #[test]
    fn programs_with_the_keyboard_protocol_get_its_sequences() {
        let modes = InputModes { keyboard_flags: 1, ..InputModes::default() };
        assert_eq!(sent(KeyCode::Char('c'), KeyModifiers::CONTROL, modes), "\x1b[99;5u");
        assert_eq!(sent(KeyCode::Enter, KeyModifiers::SHIFT, modes), "\x1b[13;2u");
        assert_eq!(sent(KeyCode::Enter, KeyModifiers::NONE, modes), "\r");
        assert_eq!(sent(KeyCode::Esc, KeyModifiers::NONE, modes), "\x1b[27u");
        assert_eq!(sent(KeyCode::Char('x'), KeyModifiers::NONE, modes), "x");
    }

    #[test]
    fn pasted_text_cannot_end_its_markers() {
        let modes = InputModes { bracketed_paste: true, ..InputModes::default() };
        assert_eq!(paste("a\x1b[201~b\n", modes), b"\x1b[200~ab\n\x1b[201~");
        assert_eq!(paste("a\r\nb\n", InputModes::default()), b"a\rb\r");
    }

    #[test]
    fn mouse_events_are_sent_only_if_the_program_wants_them() {
        let event = |kind| MouseEvent { kind, column: 0, row: 0, modifiers: KeyModifiers::NONE };
        let modes = InputModes { mouse: MouseEvents::Buttons, sgr_mouse: true, ..InputModes::default() };
        let press = event(MouseEventKind::Down(MouseButton::Left));
        assert_eq!(mouse(press, 4, 9, modes), b"\x1b[<0;5;10M");
        assert_eq!(mouse(event(MouseEventKind::ScrollDown), 0, 0, modes), b"\x1b[<65;1;1M");
        assert!(mouse(event(MouseEventKind::Moved), 0, 0, modes).is_empty());
        assert!(mouse(press, 4, 9, InputModes::default()).is_empty());
        let old = InputModes { mouse: MouseEvents::Buttons, ..InputModes::default() };
        assert_eq!(mouse(press, 4, 9, old), b"\x1b[M %*");
    }
}
