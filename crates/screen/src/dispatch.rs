//! Dispatches parsed control functions to the model, one line for each.

use alacritty_terminal::vte::ansi::{CharsetIndex, Handler, StandardCharset};
use alacritty_terminal::vte::{Params, Perform};

use crate::model::Model;
use crate::modes::{AUTOWRAP, ORIGIN};
use crate::sgr;
use crate::strings::Dcs;

impl Perform for Model {
    #[inline]
    fn print(&mut self, c: char) {
        if matches!(self.dcs, Dcs::None) {
            self.print_char(c);
        }
    }

    #[inline]
    fn execute(&mut self, byte: u8) {
        self.preceding = None;
        if !matches!(self.dcs, Dcs::None) {
            // CAN and SUB end a string at any point.
            if matches!(byte, 0x18 | 0x1a) {
                self.dcs = Dcs::None;
            }
            return;
        }
        match byte {
            0x07 => self.signals.ring(),
            0x08 => self.term.backspace(),
            b'\t' => self.tab_forward(1),
            b'\n' | 0x0b | 0x0c => self.term.newline(),
            b'\r' => self.term.carriage_return(),
            0x0e => self.shift(CharsetIndex::G1),
            0x0f => self.shift(CharsetIndex::G0),
            _ => {}
        }
    }

    fn hook(&mut self, _: &Params, intermediates: &[u8], _: bool, action: char) {
        self.preceding = None;
        self.begin_dcs(intermediates, action);
    }

    fn put(&mut self, byte: u8) {
        self.put_dcs(byte);
    }

    fn unhook(&mut self) {
        self.end_dcs();
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], bell: bool) {
        self.start_sequence();
        self.osc(params, bell);
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        let repeated = self.preceding;
        self.start_sequence();
        if ignore {
            return;
        }
        let param = |at: usize| params.iter().nth(at).map_or(0, |param| param[0]);
        let first = param(0);
        let count = usize::from(first.max(1));
        let steps = count as i32;
        match (action, intermediates) {
            ('@', b"") => self.insert_chars(count),
            ('A', b"") => self.move_rows(-steps),
            ('B' | 'e', b"") => self.move_rows(steps),
            ('C' | 'a', b"") => self.move_cols(steps),
            ('D', b"") => self.move_cols(-steps),
            ('E', b"") => {
                self.move_rows(steps);
                self.place_in_row(0);
            }
            ('F', b"") => {
                self.move_rows(-steps);
                self.place_in_row(0);
            }
            ('G' | '`', b"") => self.place_in_row(count - 1),
            ('H' | 'f', b"") => self.place_addressed(count - 1, usize::from(param(1).max(1)) - 1),
            ('I', b"") => self.tab_forward(first.max(1)),
            ('J', b"") => self.erase_in_display(first),
            ('K', b"") => self.erase_in_line(first),
            ('L', b"") => self.term.insert_blank_lines(count),
            ('M', b"") => self.term.delete_lines(count),
            ('P', b"") => self.delete_chars(count),
            ('S', b"") => self.term.scroll_up(count),
            ('T', b"") if params.len() == 1 => self.term.scroll_down(count),
            ('X', b"") => self.erase_chars(count),
            ('Z', b"") => self.tab_backward(first.max(1)),
            ('b', b"") => {
                self.preceding = repeated;
                self.repeat(count as u16);
            }
            ('c', b"") if first == 0 => self.identify(None),
            ('c', [level @ (b'>' | b'=')]) if first == 0 => self.identify(Some(*level)),
            ('d', b"") => {
                let col = self.cursor_point().1;
                self.place_addressed(count - 1, col);
            }
            ('g', b"") => self.clear_tabs(first),
            ('h', b"") => params.iter().for_each(|param| self.set_mode(param[0], true)),
            ('l', b"") => params.iter().for_each(|param| self.set_mode(param[0], false)),
            ('h', b"?") => params.iter().for_each(|param| self.set_private_mode(param[0], true)),
            ('l', b"?") => params.iter().for_each(|param| self.set_private_mode(param[0], false)),
            ('m', b"") => sgr::apply(&mut self.term.grid_mut().cursor.template, params),
            ('m', b">") if first == 4 => self.modes.modify_other_keys = param(1).min(3) as u8,
            ('m', b">") if first == 0 => self.modes.modify_other_keys = 0,
            ('m', b"?") if first == 4 => self.report_modify_other_keys(),
            ('n', b"") => self.report_status(first, false),
            ('n', b"?") => self.report_status(first, true),
            ('p', b"$") => self.report_mode(first),
            ('p', b"?$") => self.report_private_mode(first),
            ('p', b"!") => self.soft_reset(),
            ('q', b" ") if first <= 6 => self.modes.cursor_style = first as u8,
            ('q', b">") if first == 0 => self.report_version(),
            ('r', b"") => self.set_margins(usize::from(first), usize::from(param(1))),
            ('s', b"") => self.save_cursor(),
            ('u', b"") => self.restore_cursor(),
            ('t', b"") => match first {
                18 => self.report_size(),
                22 => self.push_title(),
                23 => self.pop_title(),
                _ => {}
            },
            ('u', b"?") => self.report_keyboard(),
            ('u', b">") => self.keyboard().push(first),
            ('u', b"<") => self.keyboard().pop(first.max(1)),
            ('u', b"=") => self.keyboard().set(first, param(1)),
            _ => {}
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        self.start_sequence();
        if ignore {
            return;
        }
        match (byte, intermediates) {
            (b'7', b"") => self.save_cursor(),
            (b'8', b"") => self.restore_cursor(),
            (b'8', b"#") => self.term.decaln(),
            (b'=', b"") => self.modes.app_keypad = true,
            (b'>', b"") => self.modes.app_keypad = false,
            (b'D', b"") => self.term.linefeed(),
            (b'E', b"") => {
                self.term.linefeed();
                self.term.carriage_return();
            }
            (b'H', b"") => {
                let col = self.cursor_point().1;
                self.tabs[col] = true;
            }
            (b'M', b"") => self.term.reverse_index(),
            (b'Z', b"") => self.identify(None),
            (b'c', b"") => self.reset(),
            (b'0', [set]) => self.designate(*set, StandardCharset::SpecialCharacterAndLineDrawing),
            (b'A' | b'B', [set]) => self.designate(*set, StandardCharset::Ascii),
            _ => {}
        }
    }
}

impl Model {
    /// Ends an open string and clears the character for REP before a sequence is handled.
    fn start_sequence(&mut self) {
        self.preceding = None;
        self.dcs = Dcs::None;
    }

    fn keyboard(&mut self) -> &mut crate::keyboard::Keyboard {
        let active = self.active();
        &mut self.keyboard[active]
    }

    fn shift(&mut self, charset: CharsetIndex) {
        self.charset = charset;
        self.term.set_active_charset(charset);
    }

    fn designate(&mut self, set: u8, charset: StandardCharset) {
        let index = match set {
            b'(' => CharsetIndex::G0,
            b')' => CharsetIndex::G1,
            b'*' => CharsetIndex::G2,
            b'+' => CharsetIndex::G3,
            _ => return,
        };
        self.term.configure_charset(index, charset);
    }

    fn clear_tabs(&mut self, which: u16) {
        match which {
            0 => {
                let col = self.cursor_point().1;
                self.tabs[col] = false;
            }
            3 => self.tabs.fill(false),
            _ => {}
        }
    }

    fn set_mode(&mut self, number: u16, is_on: bool) {
        match number {
            4 => self.set_insert(is_on),
            20 => self.set_new_line(is_on),
            _ => {}
        }
    }

    fn set_private_mode(&mut self, number: u16, is_on: bool) {
        match (number, is_on) {
            (ORIGIN, _) => self.set_origin(is_on),
            (AUTOWRAP, _) => self.set_autowrap(is_on),
            (66, _) => self.modes.app_keypad = is_on,
            (47 | 1047 | 1049, true) => self.enter_alternate(),
            (47 | 1047 | 1049, false) => self.leave_alternate(),
            (1048, true) => self.save_cursor(),
            (1048, false) => self.restore_cursor(),
            // Synchronised updates (2026) take effect immediately: the model never delays output.
            _ => self.modes.set(number, is_on),
        }
    }

    /// DECSTR.
    fn soft_reset(&mut self) {
        let point = self.cursor_point();
        self.set_insert(false);
        self.set_autowrap(true);
        self.origin = false;
        self.modes.set(crate::modes::APP_CURSOR_KEYS, false);
        self.modes.set(crate::modes::CURSOR_VISIBLE, true);
        self.modes.app_keypad = false;
        self.set_margins(0, 0);
        self.shift(CharsetIndex::G0);
        let cursor = &mut self.term.grid_mut().cursor;
        cursor.template = Default::default();
        cursor.charsets = Default::default();
        self.place(point.0, point.1);
        let active = self.active();
        self.saved[active] = Default::default();
        self.term.grid_mut().saved_cursor = Default::default();
    }
}
