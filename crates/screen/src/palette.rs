//! The colours that a terminal is assumed to have, for answers to programs and for HTML pages.

use alacritty_terminal::vte::ansi::{NamedColor, Rgb};

/// A dark theme, which most programs also assume.
pub(crate) const FOREGROUND: Rgb = rgb(0xd4d4d4);
pub(crate) const BACKGROUND: Rgb = rgb(0x1e1e1e);

const ANSI: [Rgb; 16] = [
    rgb(0x2e3436),
    rgb(0xe05252),
    rgb(0x5fb35f),
    rgb(0xd0a53c),
    rgb(0x5c8fd6),
    rgb(0xb277c2),
    rgb(0x45a9b0),
    rgb(0xc8c8c8),
    rgb(0x7c8084),
    rgb(0xff7b72),
    rgb(0x8ad98a),
    rgb(0xf0cf6a),
    rgb(0x8ab8ff),
    rgb(0xd8a3e6),
    rgb(0x7bd5dc),
    rgb(0xffffff),
];

const fn rgb(value: u32) -> Rgb {
    Rgb { r: (value >> 16) as u8, g: (value >> 8) as u8, b: value as u8 }
}

/// Returns a colour of the 256-colour palette: 16 named, a cube of 6×6×6, 24 greys.
pub(crate) fn indexed(index: u8) -> Rgb {
    let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
    match index {
        0..=15 => ANSI[usize::from(index)],
        16..=231 => {
            let cube = index - 16;
            Rgb { r: level(cube / 36), g: level(cube / 6 % 6), b: level(cube % 6) }
        }
        232.. => {
            let grey = 8 + 10 * (index - 232);
            Rgb { r: grey, g: grey, b: grey }
        }
    }
}

/// Returns the default colour at an index of the terminal's colour table.
pub(crate) fn assumed(index: usize) -> Rgb {
    match u8::try_from(index) {
        Ok(index) => indexed(index),
        Err(_) if index == NamedColor::Background as usize => BACKGROUND,
        Err(_) => FOREGROUND,
    }
}

/// Parses `#rrggbb` and `rgb:rr/gg/bb`, each part with one to four digits.
pub(crate) fn parse(value: &[u8]) -> Option<Rgb> {
    let value = str::from_utf8(value).ok()?;
    let parts: Vec<&str> = if let Some(list) = value.strip_prefix("rgb:") {
        list.split('/').collect()
    } else {
        let digits = value.strip_prefix('#').filter(|digits| digits.is_ascii())?;
        let width = digits.len() / 3;
        if width == 0 || digits.len() % 3 != 0 {
            return None;
        }
        vec![&digits[..width], &digits[width..2 * width], &digits[2 * width..]]
    };
    let part = |text: &str| {
        let largest = match text.len() {
            1..=4 => (1u32 << (4 * text.len())) - 1,
            _ => return None,
        };
        Some((255 * u32::from_str_radix(text, 16).ok()? / largest) as u8)
    };
    match parts[..] {
        [r, g, b] => Some(Rgb { r: part(r)?, g: part(g)?, b: part(b)? }),
        _ => None,
    }
}
