//! Control strings: titles, links, colours and signals (OSC), and the few DCS requests that need an answer.

use alacritty_terminal::vte::ansi::{Handler, Hyperlink, NamedColor, Rgb};

use crate::model::{Model, NAMED_COLORS};
use crate::palette;

/// Longer titles are truncated: a window's title bar cannot show them.
const MAX_TITLE: usize = 1024;
const MAX_TITLES: usize = 16;

/// Longer links are dropped: some browsers do not accept them either.
const MAX_URI: usize = 2083;
const MAX_LINK_ID: usize = 256;

const MAX_REQUEST: usize = 256;

/// The device control string being received.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Dcs {
    #[default]
    None,
    Swallowed,
    /// XTGETTCAP, with the requested names.
    Capabilities(Vec<u8>),
    /// DECRQSS.
    Setting,
    /// The parser treats 0x9C as the end of the string, although it also occurs inside UTF-8 characters. The following
    /// bytes still belong to the string until its real end.
    Ending,
}

impl Model {
    pub(crate) fn begin_dcs(&mut self, intermediates: &[u8], action: char) {
        self.dcs = match (action, intermediates) {
            ('q', b"+") => Dcs::Capabilities(Vec::new()),
            ('q', b"$") => Dcs::Setting,
            _ => Dcs::Swallowed,
        };
    }

    pub(crate) fn put_dcs(&mut self, byte: u8) {
        if let Dcs::Capabilities(names) = &mut self.dcs
            && names.len() < MAX_REQUEST
        {
            names.push(byte);
        }
    }

    pub(crate) fn end_dcs(&mut self) {
        match std::mem::replace(&mut self.dcs, Dcs::Ending) {
            Dcs::Capabilities(names) => {
                // Names are hexadecimal; other bytes must not be sent back to a program.
                let is_name = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b';';
                if names.iter().all(is_name) {
                    self.reply(b"\x1bP0+r");
                    self.reply(&names);
                    self.reply(b"\x1b\\");
                }
            }
            Dcs::Setting => self.reply(b"\x1bP0$r\x1b\\"),
            Dcs::None | Dcs::Swallowed | Dcs::Ending => {}
        }
    }

    pub(crate) fn osc(&mut self, params: &[&[u8]], bell: bool) {
        let Some((code, rest)) = params.split_first() else {
            return;
        };
        let end: &[u8] = if bell { b"\x07" } else { b"\x1b\\" };
        match *code {
            b"0" | b"2" => self.set_title(rest),
            b"4" => {
                for pair in rest.chunks_exact(2) {
                    if let Some(index) = number(pair[0]).filter(|index| *index < 256) {
                        self.color(&format!("4;{index}"), index, pair[1], end);
                    }
                }
            }
            b"8" => self.set_link(rest),
            b"9" => self.signals.osc_9(rest),
            b"10" | b"11" | b"12" => {
                // Further values apply to the next colours in the list.
                let first = usize::from(code[1] - b'0');
                for ((named, number), value) in NAMED_COLORS.iter().skip(first).zip(rest) {
                    self.color(&number.to_string(), *named as usize, value, end);
                }
            }
            b"99" => self.signals.osc_99(rest),
            b"104" if rest.is_empty() || rest[0].is_empty() => {
                (0..256).for_each(|index| self.term.reset_color(index));
            }
            b"104" => {
                for index in rest.iter().filter_map(|text| number(text)).filter(|index| *index < 256) {
                    self.term.reset_color(index);
                }
            }
            b"110" => self.term.reset_color(NamedColor::Foreground as usize),
            b"111" => self.term.reset_color(NamedColor::Background as usize),
            b"112" => self.term.reset_color(NamedColor::Cursor as usize),
            b"133" => self.signals.osc_133(rest),
            b"777" => self.signals.osc_777(rest),
            _ => {}
        }
    }

    fn set_title(&mut self, parts: &[&[u8]]) {
        let text = parts.join(&b';');
        let text = String::from_utf8_lossy(&text);
        let mut title: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        title.truncate(title.floor_char_boundary(MAX_TITLE));
        self.change_title((!title.is_empty()).then_some(title));
    }

    /// Sets the title. A title that stays the same is not a signal: some programs repeat it with every frame.
    pub(crate) fn change_title(&mut self, title: Option<String>) {
        if self.title != title {
            self.signals.change_title(title.as_deref());
            self.title = title;
        }
    }

    pub(crate) fn push_title(&mut self) {
        if self.titles.len() == MAX_TITLES {
            self.titles.remove(0);
        }
        self.titles.push(self.title.clone());
    }

    pub(crate) fn pop_title(&mut self) {
        if let Some(title) = self.titles.pop() {
            self.change_title(title);
        }
    }

    fn set_link(&mut self, parts: &[&[u8]]) {
        let link = parts.split_first().and_then(|(attributes, uri)| {
            let uri = String::from_utf8(uri.join(&b';')).ok()?;
            let attributes = str::from_utf8(attributes).ok()?;
            let id = attributes.split(':').find_map(|pair| pair.strip_prefix("id=")).unwrap_or("");
            let is_clean = |text: &str| !text.chars().any(char::is_control);
            let fits = !uri.is_empty() && uri.len() <= MAX_URI && id.len() <= MAX_LINK_ID;
            // An empty id prevents the terminal from generating one, which a snapshot could not reproduce.
            (fits && is_clean(&uri) && is_clean(id)).then(|| Hyperlink { id: Some(id.into()), uri })
        });
        self.term.set_hyperlink(link);
    }

    /// Sets a colour, or answers a query for it.
    fn color(&mut self, code: &str, index: usize, value: &[u8], end: &[u8]) {
        if value == b"?" {
            let Rgb { r, g, b } = self.term.colors()[index].unwrap_or_else(|| palette::assumed(index));
            self.reply(format!("\x1b]{code};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}").as_bytes());
            self.reply(end);
        } else if let Some(color) = palette::parse(value) {
            self.term.set_color(index, color);
        }
    }
}

fn number(text: &[u8]) -> Option<usize> {
    str::from_utf8(text).ok()?.parse().ok()
}
