//! Signals in a program's output: titles, notifications, progress, bells and shell marks.
//!
//! Programs send them as control strings (OSC) that the screen does not show. The caller reads them with
//! [`Screen::take_signals`](crate::Screen::take_signals).

use std::collections::VecDeque;

/// Signals kept between two calls of `take_signals`; the oldest ones are dropped.
const MAX_PENDING: usize = 64;

/// Longer texts are cut at a character boundary.
const MAX_TEXT: usize = 512;

/// Notifications of OSC 99 whose last chunk has not arrived yet; the oldest ones are dropped.
const MAX_PARTIAL: usize = 4;

/// A message from a program to its terminal that is not shown on the screen.
///
/// Texts have no control characters and at most 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    /// The window title has changed (OSC 0 and 2, or a restored title); empty if it was removed.
    Title(String),
    /// A desktop notification (OSC 9, 99 and 777). A notification with a single text has it in `body`.
    Notification { title: Option<String>, body: String },
    /// The state of a progress bar (OSC 9;4).
    Progress(Progress),
    /// BEL outside of a control string.
    Bell,
    /// A shell shows its prompt (OSC 133;A and B).
    PromptShown,
    /// A shell runs a command (OSC 133;C).
    CommandStarted,
    /// A shell's command has ended (OSC 133;D), with its exit code if the shell reports one.
    CommandEnded { exit: Option<i32> },
}

/// The state of a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// There is no progress bar.
    Hidden,
    /// Percentage of the work that is done.
    Percent(u8),
    Failed,
    /// The program works, for an unknown time.
    Busy,
    Paused,
}

/// The signals that were received and not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pending: VecDeque<TerminalSignal>,
    partial: VecDeque<PartialNotification>,
}

/// The chunks of one OSC 99 notification so far.
#[derive(Debug, Default)]
struct PartialNotification {
    id: Vec<u8>,
    title: Vec<u8>,
    body: Vec<u8>,
}

impl Signals {
    pub(crate) fn take(&mut self) -> Vec<TerminalSignal> {
        std::mem::take(&mut self.pending).into()
    }

    /// Not inlined: the caller is the hot path of control characters.
    #[cold]
    pub(crate) fn ring(&mut self) {
        self.push(TerminalSignal::Bell);
    }

    pub(crate) fn change_title(&mut self, title: Option<&str>) {
        let mut title = title.unwrap_or("").to_owned();
        title.truncate(title.floor_char_boundary(MAX_TEXT));
        self.push(TerminalSignal::Title(title));
    }

    /// OSC 9. Its number also introduces commands of ConEmu, such as progress and the working folder.
    pub(crate) fn osc_9(&mut self, params: &[&[u8]]) {
        match params {
            [b"4", rest @ ..] => {
                if let Some(progress) = progress(rest) {
                    self.push(TerminalSignal::Progress(progress));
                }
            }
            [b"1" | b"2" | b"3" | b"5" | b"6" | b"7" | b"8" | b"9" | b"10" | b"11" | b"12", ..] => {}
            _ => self.notify(b"", &params.join(&b';')),
        }
    }

    /// OSC 777, of which terminals know only `notify;TITLE;BODY`.
    pub(crate) fn osc_777(&mut self, params: &[&[u8]]) {
        if let [b"notify", title, body @ ..] = params {
            self.notify(title, &body.join(&b';'));
        }
    }

    /// OSC 99: a chunk of a notification, with `key=value` pairs before its text.
    pub(crate) fn osc_99(&mut self, params: &[&[u8]]) {
        let Some((attributes, payload)) = params.split_first() else {
            return;
        };
        let attribute = |key: u8| {
            let mut pairs = attributes.split(|byte| *byte == b':');
            pairs.find_map(|pair| pair.strip_prefix(&[key, b'=']))
        };
        let part = attribute(b'p').unwrap_or(b"title");
        if matches!(part, b"?" | b"close" | b"alive") {
            return;
        }
        let id = attribute(b'i').unwrap_or(b"");
        let known = self.partial.iter().position(|partial| partial.id == id);
        let mut partial = known.and_then(|at| self.partial.remove(at)).unwrap_or_else(|| PartialNotification {
            id: id[..id.len().min(MAX_TEXT)].to_vec(),
            ..PartialNotification::default()
        });
        let payload = payload.join(&b';');
        let payload = if attribute(b'e') == Some(b"1") { decode_base64(&payload) } else { payload };
        let text = match part {
            b"title" => Some(&mut partial.title),
            b"body" => Some(&mut partial.body),
            _ => None,
        };
        if let Some(text) = text {
            let room = MAX_TEXT.saturating_sub(text.len());
            text.extend_from_slice(&payload[..payload.len().min(room)]);
        }
        if attribute(b'd') == Some(b"0") {
            if self.partial.len() == MAX_PARTIAL {
                self.partial.pop_front();
            }
            self.partial.push_back(partial);
        } else {
            self.notify(&partial.title, &partial.body);
        }
    }

    /// OSC 133: marks that a shell puts around its prompt and its commands.
    pub(crate) fn osc_133(&mut self, params: &[&[u8]]) {
        match params {
            [b"A" | b"B", ..] => self.push(TerminalSignal::PromptShown),
            [b"C", ..] => self.push(TerminalSignal::CommandStarted),
            [b"D", rest @ ..] => {
                let exit = rest.first().and_then(|code| str::from_utf8(code).ok()?.parse().ok());
                self.push(TerminalSignal::CommandEnded { exit });
            }
            _ => {}
        }
    }

    fn notify(&mut self, title: &[u8], body: &[u8]) {
        let (title, body) = (clean(title), clean(body));
        match (title.is_empty(), body.is_empty()) {
            (true, true) => {}
            (false, true) => self.push(TerminalSignal::Notification { title: None, body: title }),
            (no_title, false) => {
                self.push(TerminalSignal::Notification { title: (!no_title).then_some(title), body });
            }
        }
    }

    fn push(&mut self, signal: TerminalSignal) {
        // A second notification can be about another request with the same text; other repeats say nothing new.
        let is_notification = matches!(signal, TerminalSignal::Notification { .. });
        if !is_notification && self.pending.back() == Some(&signal) {
            return;
        }
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(signal);
    }
}

fn progress(params: &[&[u8]]) -> Option<Progress> {
    let percent = |text: &[u8]| str::from_utf8(text).ok()?.parse::<u32>().ok();
    match params {
        [b"0", ..] => Some(Progress::Hidden),
        [b"1", rest @ ..] => {
            let done = rest.first().and_then(|text| percent(text)).unwrap_or(0);
            Some(Progress::Percent(done.min(100) as u8))
        }
        [b"2", ..] => Some(Progress::Failed),
        [b"3", ..] => Some(Progress::Busy),
        [b"4", ..] => Some(Progress::Paused),
        _ => None,
    }
}

/// Returns one line of text without control characters, cut to the maximum length.
fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * MAX_TEXT)]);
    let spaced = text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c });
    let line: String = spaced.filter(|c| !c.is_control()).collect();
    let mut line = line.trim().to_owned();
    line.truncate(line.floor_char_boundary(MAX_TEXT));
    // The cut input can end inside a character.
    line.truncate(line.trim_end_matches('\u{fffd}').len());
    line
}

/// Decodes base64 up to the first byte that does not belong to it.
fn decode_base64(text: &[u8]) -> Vec<u8> {
    let digits = text.iter().map_while(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut bits, mut count, mut bytes) = (0u32, 0, Vec::new());
    for digit in digits.take(4 * MAX_TEXT) {
        bits = bits << 6 | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes
}
