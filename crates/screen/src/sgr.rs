//! Select Graphic Rendition (SGR): applies it to a cell and writes a cell's look as SGR.

use alacritty_terminal::term::cell::{Cell, Flags, Hyperlink};
use alacritty_terminal::vte::Params;
use alacritty_terminal::vte::ansi::{Color, NamedColor, Rgb};

/// Blinking. Alacritty has no flag for it and leaves this bit unused.
pub(crate) const BLINK: Flags = Flags::from_bits_retain(0x8000);

/// Flags that describe a cell's look; the others describe its position in the grid.
pub(crate) const LOOK: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::ALL_UNDERLINES)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT)
    .union(BLINK);

/// Flags that are visible on a blank.
pub(crate) const SHOWS_ON_BLANK: Flags = Flags::INVERSE.union(Flags::ALL_UNDERLINES).union(Flags::STRIKEOUT);

const DEFAULT_FG: Color = Color::Named(NamedColor::Foreground);
const DEFAULT_BG: Color = Color::Named(NamedColor::Background);

const NAMED: [NamedColor; 16] = [
    NamedColor::Black,
    NamedColor::Red,
    NamedColor::Green,
    NamedColor::Yellow,
    NamedColor::Blue,
    NamedColor::Magenta,
    NamedColor::Cyan,
    NamedColor::White,
    NamedColor::BrightBlack,
    NamedColor::BrightRed,
    NamedColor::BrightGreen,
    NamedColor::BrightYellow,
    NamedColor::BrightBlue,
    NamedColor::BrightMagenta,
    NamedColor::BrightCyan,
    NamedColor::BrightWhite,
];

/// The look of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) fg: Color,
    pub(crate) bg: Color,
    pub(crate) flags: Flags,
    pub(crate) underline_color: Option<Color>,
    pub(crate) link: Option<Hyperlink>,
}

impl Default for Look {
    fn default() -> Look {
        Look { fg: DEFAULT_FG, bg: DEFAULT_BG, flags: Flags::empty(), underline_color: None, link: None }
    }
}

impl Look {
    pub(crate) fn of(cell: &Cell) -> Look {
        Look {
            fg: cell.fg,
            bg: cell.bg,
            flags: cell.flags & LOOK,
            underline_color: cell.underline_color(),
            link: cell.hyperlink(),
        }
    }

    /// Returns the look of a cell that shows only its background; `None` for other cells.
    pub(crate) fn of_blank(cell: &Cell) -> Option<Look> {
        let is_blank =
            cell.c == ' ' && !cell.flags.intersects(SHOWS_ON_BLANK) && cell.zerowidth().is_none_or(<[char]>::is_empty);
        is_blank.then(|| Look { bg: cell.bg, link: cell.hyperlink(), ..Look::default() })
    }

    /// Reports whether a blank painted with this look is indistinguishable from one painted with `blank`.
    pub(crate) fn suits_blank(&self, blank: &Look) -> bool {
        self.bg == blank.bg && self.link == blank.link && !self.flags.intersects(SHOWS_ON_BLANK)
    }

    /// Reports whether `cell` has this look.
    pub(crate) fn matches(&self, cell: &Cell) -> bool {
        self.fg == cell.fg
            && self.bg == cell.bg
            && self.flags == cell.flags & LOOK
            && match &cell.extra {
                None => self.underline_color.is_none() && self.link.is_none(),
                Some(_) => self.underline_color == cell.underline_color() && self.link == cell.hyperlink(),
            }
    }
}

/// Applies SGR parameters to the template of new cells.
pub(crate) fn apply(template: &mut Cell, params: &Params) {
    let mut params = params.iter();
    while let Some(param) = params.next() {
        let flags = &mut template.flags;
        match *param {
            [0] => {
                template.fg = DEFAULT_FG;
                template.bg = DEFAULT_BG;
                *flags = Flags::empty();
                template.set_underline_color(None);
            }
            [1] => flags.insert(Flags::BOLD),
            [2] => flags.insert(Flags::DIM),
            [3] => flags.insert(Flags::ITALIC),
            [4] => underline(flags, Flags::UNDERLINE),
            [4, 0] | [24] => flags.remove(Flags::ALL_UNDERLINES),
            [4, 2] | [21] => underline(flags, Flags::DOUBLE_UNDERLINE),
            [4, 3] => underline(flags, Flags::UNDERCURL),
            [4, 4] => underline(flags, Flags::DOTTED_UNDERLINE),
            [4, 5] => underline(flags, Flags::DASHED_UNDERLINE),
            [4, ..] => underline(flags, Flags::UNDERLINE),
            [5 | 6] => flags.insert(BLINK),
            [7] => flags.insert(Flags::INVERSE),
            [8] => flags.insert(Flags::HIDDEN),
            [9] => flags.insert(Flags::STRIKEOUT),
            [22] => flags.remove(Flags::BOLD | Flags::DIM),
            [23] => flags.remove(Flags::ITALIC),
            [25] => flags.remove(BLINK),
            [27] => flags.remove(Flags::INVERSE),
            [28] => flags.remove(Flags::HIDDEN),
            [29] => flags.remove(Flags::STRIKEOUT),
            [n @ 30..=37] => template.fg = named(n - 30),
            [n @ 90..=97] => template.fg = named(n - 82),
            [39] => template.fg = DEFAULT_FG,
            [n @ 40..=47] => template.bg = named(n - 40),
            [n @ 100..=107] => template.bg = named(n - 92),
            [49] => template.bg = DEFAULT_BG,
            [59] => template.set_underline_color(None),
            [which @ (38 | 48 | 58), ref inner @ ..] => {
                let color = if inner.is_empty() {
                    listed_color(&mut params.by_ref().map(|param| param[0]))
                } else {
                    // With five or more values, the second is a colour space.
                    let skip = if inner.len() > 4 { 2 } else { 1 };
                    listed_color(&mut inner[..1].iter().chain(inner.iter().skip(skip)).copied())
                };
                match (which, color) {
                    (_, None) => {}
                    (38, Some(color)) => template.fg = color,
                    (48, Some(color)) => template.bg = color,
                    (_, color) => template.set_underline_color(color),
                }
            }
            _ => {}
        }
    }
}

fn underline(flags: &mut Flags, kind: Flags) {
    flags.remove(Flags::ALL_UNDERLINES);
    flags.insert(kind);
}

fn named(index: u16) -> Color {
    Color::Named(NAMED[usize::from(index)])
}

fn listed_color(values: &mut dyn Iterator<Item = u16>) -> Option<Color> {
    match values.next()? {
        2 => {
            // Read all three before checking any: leftover values would be parsed as attributes.
            let (r, g, b) = (values.next()?, values.next()?, values.next()?);
            let [r, g, b] = [r, g, b].map(u8::try_from);
            Some(Color::Spec(Rgb { r: r.ok()?, g: g.ok()?, b: b.ok()? }))
        }
        5 => Some(Color::Indexed(u8::try_from(values.next()?).ok()?)),
        _ => None,
    }
}

/// Writes the sequences that change the current look from `old` to `new`.
pub(crate) fn write_change(out: &mut Vec<u8>, old: &Look, new: &Look) {
    if old.link != new.link {
        match &new.link {
            None => out.extend_from_slice(b"\x1b]8;;\x1b\\"),
            Some(link) if link.id().is_empty() => {
                out.extend_from_slice(format!("\x1b]8;;{}\x1b\\", link.uri()).as_bytes());
            }
            Some(link) => {
                let (id, uri) = (link.id(), link.uri());
                out.extend_from_slice(format!("\x1b]8;id={id};{uri}\x1b\\").as_bytes());
            }
        }
    }
    let same_colors = (old.fg, old.bg, old.underline_color) == (new.fg, new.bg, new.underline_color);
    if same_colors && old.flags == new.flags {
        return;
    }
    let start = out.len();
    out.extend_from_slice(b"\x1b[");
    let plain = Look::default();
    // Attributes are rarely removed one by one, so reset all of them first.
    let loses = !(old.flags - new.flags).is_empty();
    let old = if loses {
        out.extend_from_slice(b"0;");
        &plain
    } else {
        old
    };
    write_flags(out, new.flags - old.flags);
    if old.fg != new.fg {
        write_color(out, new.fg, 30);
    }
    if old.bg != new.bg {
        write_color(out, new.bg, 40);
    }
    if old.underline_color != new.underline_color {
        match new.underline_color {
            None => out.extend_from_slice(b"59;"),
            Some(Color::Indexed(index)) => push(out, format_args!("58:5:{index};")),
            Some(Color::Spec(Rgb { r, g, b })) => push(out, format_args!("58:2::{r}:{g}:{b};")),
            Some(Color::Named(name)) => push(out, format_args!("58:5:{};", name as usize)),
        }
    }
    // The last separator becomes the final byte.
    match out.last_mut() {
        Some(last) if *last == b';' => *last = b'm',
        _ => out.truncate(start),
    }
}

fn write_flags(out: &mut Vec<u8>, flags: Flags) {
    const CODES: [(Flags, &[u8]); 12] = [
        (Flags::BOLD, b"1;"),
        (Flags::DIM, b"2;"),
        (Flags::ITALIC, b"3;"),
        (Flags::UNDERLINE, b"4;"),
        (Flags::DOUBLE_UNDERLINE, b"4:2;"),
        (Flags::UNDERCURL, b"4:3;"),
        (Flags::DOTTED_UNDERLINE, b"4:4;"),
        (Flags::DASHED_UNDERLINE, b"4:5;"),
        (BLINK, b"5;"),
        (Flags::INVERSE, b"7;"),
        (Flags::HIDDEN, b"8;"),
        (Flags::STRIKEOUT, b"9;"),
    ];
    for (flag, code) in CODES {
        if flags.contains(flag) {
            out.extend_from_slice(code);
        }
    }
}

fn write_color(out: &mut Vec<u8>, color: Color, base: usize) {
    match color {
        Color::Named(name) if (name as usize) < 8 => push(out, format_args!("{};", base + name as usize)),
        Color::Named(name) if (name as usize) < 16 => {
            push(out, format_args!("{};", base + 52 + name as usize));
        }
        Color::Named(_) => push(out, format_args!("{};", base + 9)),
        Color::Indexed(index) => push(out, format_args!("{};5;{index};", base + 8)),
        Color::Spec(Rgb { r, g, b }) => push(out, format_args!("{};2;{r};{g};{b};", base + 8)),
    }
}

/// Formats into a byte vector, which cannot fail.
pub(crate) fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = out.write_fmt(text);
}
