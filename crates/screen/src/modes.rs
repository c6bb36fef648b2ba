//! Terminal modes that the model tracks and a snapshot restores.

/// A private mode (`CSI ? n h`) that is on or off. Most take effect only in the viewer's terminal.
struct Mode {
    number: u16,
    on_at_start: bool,
    /// Modes of one group are mutually exclusive: only the last one set is on.
    group: Group,
    /// Whether a snapshot switches the mode off before painting; false if terminals have different defaults.
    cleared: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    None,
    MouseEvents,
    MouseEncoding,
}

const fn mode(number: u16, group: Group) -> Mode {
    Mode { number, on_at_start: false, group, cleared: true }
}

const fn on(number: u16) -> Mode {
    Mode { number, on_at_start: true, group: Group::None, cleared: true }
}

const fn kept(number: u16) -> Mode {
    Mode { number, on_at_start: false, group: Group::None, cleared: false }
}

pub(crate) const APP_CURSOR_KEYS: u16 = 1;
pub(crate) const ORIGIN: u16 = 6;
pub(crate) const AUTOWRAP: u16 = 7;
pub(crate) const CURSOR_VISIBLE: u16 = 25;
pub(crate) const SYNCHRONIZED: u16 = 2026;

const MODES: &[Mode] = &[
    mode(APP_CURSOR_KEYS, Group::None),
    mode(5, Group::None),
    on(AUTOWRAP),
    mode(9, Group::MouseEvents),
    kept(12),
    on(CURSOR_VISIBLE),
    kept(45),
    mode(1000, Group::MouseEvents),
    mode(1002, Group::MouseEvents),
    mode(1003, Group::MouseEvents),
    mode(1004, Group::None),
    mode(1005, Group::MouseEncoding),
    mode(1006, Group::MouseEncoding),
    kept(1007),
    mode(1015, Group::MouseEncoding),
    mode(1016, Group::MouseEncoding),
    mode(2004, Group::None),
    kept(2027),
    mode(2031, Group::None),
    mode(2048, Group::None),
];

/// The state of every mode in the table, and of modes with separate sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    bits: u32,
    pub(crate) insert: bool,
    pub(crate) new_line: bool,
    pub(crate) app_keypad: bool,
    pub(crate) modify_other_keys: u8,
    /// DECSCUSR: 0 is the terminal's default.
    pub(crate) cursor_style: u8,
}

impl Default for Modes {
    fn default() -> Modes {
        let bits = MODES.iter().enumerate().filter(|(_, mode)| mode.on_at_start);
        Modes {
            bits: bits.fold(0, |bits, (at, _)| bits | 1 << at),
            insert: false,
            new_line: false,
            app_keypad: false,
            modify_other_keys: 0,
            cursor_style: 0,
        }
    }
}

impl Modes {
    /// Reports whether a private mode is on; `None` if the mode is not tracked.
    pub(crate) fn get(&self, number: u16) -> Option<bool> {
        let at = MODES.iter().position(|mode| mode.number == number)?;
        Some(self.bits & 1 << at != 0)
    }

    pub(crate) fn set(&mut self, number: u16, is_on: bool) {
        let Some(at) = MODES.iter().position(|mode| mode.number == number) else {
            return;
        };
        let group = MODES[at].group;
        if is_on && group != Group::None {
            for (other, mode) in MODES.iter().enumerate() {
                if mode.group == group {
                    self.bits &= !(1 << other);
                }
            }
        }
        self.bits = self.bits & !(1 << at) | u32::from(is_on) << at;
    }

    /// Writes the sequences that bring a terminal from the state after [`clear`] into this one.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for (at, mode) in MODES.iter().enumerate() {
            let is_on = self.bits & 1 << at != 0;
            if is_on != mode.on_at_start {
                write_mode(out, mode.number, is_on);
            }
        }
        if self.insert {
            out.extend_from_slice(b"\x1b[4h");
        }
        if self.new_line {
            out.extend_from_slice(b"\x1b[20h");
        }
        if self.app_keypad {
            out.extend_from_slice(b"\x1b=");
        }
        if self.modify_other_keys != 0 {
            out.extend_from_slice(format!("\x1b[>4;{}m", self.modify_other_keys).as_bytes());
        }
        if self.cursor_style != 0 {
            out.extend_from_slice(format!("\x1b[{} q", self.cursor_style).as_bytes());
        }
    }
}

fn write_mode(out: &mut Vec<u8>, number: u16, is_on: bool) {
    let end = if is_on { 'h' } else { 'l' };
    out.extend_from_slice(format!("\x1b[?{number}{end}").as_bytes());
}

/// Resets a terminal to its initial state, but keeps the viewer's scrollback and colours, which a full reset would
/// remove. Leaves the cursor at the top.
pub(crate) fn clear(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[<16u\x1b[?1049l\x1b[<16u\x1b[?2026l");
    out.extend_from_slice(b"\x1b[?6l\x1b[r");
    clear_modes(out);
}

fn clear_modes(out: &mut Vec<u8>) {
    // One sequence for all modes to switch off: every terminal accepts a list.
    let off = MODES.iter().filter(|mode| mode.cleared && !mode.on_at_start);
    let numbers: Vec<String> = off.map(|mode| mode.number.to_string()).collect();
    out.extend_from_slice(format!("\x1b[?{}l\x1b[?7h\x1b[?25h", numbers.join(";")).as_bytes());
    out.extend_from_slice(b"\x1b[4l\x1b[20l\x1b>\x1b[>4m\x1b[0 q\x1b(B\x1b)B\x0f\x1b[0m\x1b]8;;\x1b\\");
}
