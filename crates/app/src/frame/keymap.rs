//! Keys and what they do, as one table: it dispatches keys, fills the help and names the settings under `app.keys`.

use std::collections::BTreeMap;
use std::fmt;

use coven_domain::string_enum;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

string_enum! {
    /// What a key does outside of a focused pane.
    pub enum Action {
        Up = "up",
        Down = "down",
        PageUp = "pageUp",
        PageDown = "pageDown",
        First = "first",
        Last = "last",
        Focus = "focus",
        NextNeed = "nextNeed",
        PreviousNeed = "previousNeed",
        Allow = "allow",
        Reject = "reject",
        Filter = "filter",
        Palette = "palette",
        Agents = "agents",
        Inbox = "inbox",
        Board = "board",
        History = "history",
        Launch = "launch",
        Start = "start",
        Kill = "kill",
        Archive = "archive",
        Summon = "summon",
        Sacrifice = "sacrifice",
        Rename = "rename",
        Left = "left",
        Right = "right",
        NewTask = "newTask",
        Review = "review",
        Approve = "approve",
        RejectWork = "rejectWork",
        Block = "block",
        Unblock = "unblock",
        Close = "close",
        Delete = "delete",
        Replay = "replay",
        Export = "export",
        Scroll = "scroll",
        Zoom = "zoom",
        SplitRight = "splitRight",
        SplitBelow = "splitBelow",
        NextPane = "nextPane",
        ClosePane = "closePane",
        Redraw = "redraw",
        Suspend = "suspend",
        Help = "help",
        Quit = "quit",
    }
}

/// Where a key has its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// In the list of every view.
    List,
    Agents,
    Inbox,
    Board,
    History,
}

struct Binding {
    context: Context,
    action: Action,
    keys: &'static [&'static str],
    help: &'static str,
}

const fn bind(context: Context, action: Action, keys: &'static [&'static str], help: &'static str) -> Binding {
    Binding { context, action, keys, help }
}

const BINDINGS: &[Binding] = {
    use Action as Do;
    use Context::{Agents, Board, History, Inbox, List};
    &[
        bind(List, Do::Up, &["up", "k"], "previous row"),
        bind(List, Do::Down, &["down", "j"], "next row"),
        bind(List, Do::PageUp, &["pageup"], "previous page"),
        bind(List, Do::PageDown, &["pagedown"], "next page"),
        bind(List, Do::First, &["g", "home"], "first row"),
        bind(List, Do::Last, &["G", "end"], "last row"),
        bind(List, Do::Focus, &["enter"], "focus the pane: type to the agent, or answer"),
        bind(List, Do::NextNeed, &["tab"], "next that needs you"),
        bind(List, Do::PreviousNeed, &["shift-tab"], "previous that needs you"),
        bind(List, Do::Allow, &["y"], "allow the selected permission once"),
        bind(List, Do::Reject, &["n"], "reject the selected permission once"),
        bind(Agents, Do::Start, &["s"], "start a session that was never launched"),
        bind(Agents, Do::Kill, &["x"], "kill the session"),
        bind(Agents, Do::Archive, &["a"], "archive the session"),
        bind(Agents, Do::Sacrifice, &["d"], "delete the session for ever (asks)"),
        bind(Agents, Do::Rename, &["r"], "rename the session"),
        bind(Inbox, Do::Kill, &["x"], "kill the session that asks"),
        bind(Board, Do::Left, &["left", "h"], "column to the left"),
        bind(Board, Do::Right, &["right", "l"], "column to the right"),
        bind(Board, Do::NewTask, &["o"], "new task"),
        bind(Board, Do::Start, &["s"], "start the task"),
        bind(Board, Do::Review, &["v"], "review the changes"),
        bind(Board, Do::Approve, &["p"], "approve: merge the work"),
        bind(Board, Do::RejectWork, &["R"], "reject the work with a reason"),
        bind(Board, Do::Block, &["b"], "block the task"),
        bind(Board, Do::Unblock, &["u"], "unblock the task"),
        bind(Board, Do::Close, &["e"], "close the task"),
        bind(Board, Do::Delete, &["d"], "delete the task (asks)"),
        bind(History, Do::Replay, &["p"], "replay"),
        bind(History, Do::Archive, &["a"], "archive the session"),
        bind(History, Do::Summon, &["u"], "bring an archived session back"),
        bind(History, Do::Export, &["e"], "export the output to a file"),
        bind(History, Do::Sacrifice, &["d"], "delete the session for ever (asks)"),
        bind(List, Do::Filter, &["/"], "filter"),
        bind(List, Do::Palette, &[":", "ctrl-k"], "commands"),
        bind(List, Do::Agents, &["A"], "Agents"),
        bind(List, Do::Inbox, &["I"], "Inbox"),
        bind(List, Do::Board, &["B"], "Board"),
        bind(List, Do::History, &["H"], "History"),
        bind(List, Do::Launch, &["c"], "launch an agent"),
        bind(List, Do::Scroll, &["["], "scroll, search and copy the output"),
        bind(List, Do::Zoom, &["z"], "zoom the pane"),
        bind(List, Do::SplitRight, &["|"], "split the pane to the right"),
        bind(List, Do::SplitBelow, &["-"], "split the pane below"),
        bind(List, Do::NextPane, &["w"], "type in the next pane"),
        bind(List, Do::ClosePane, &["W"], "close the pane"),
        bind(List, Do::Redraw, &["ctrl-l"], "draw everything again"),
        bind(List, Do::Suspend, &["ctrl-z"], "suspend the app"),
        bind(List, Do::Help, &["?"], "help"),
        bind(List, Do::Quit, &["q", "ctrl-c"], "quit; sessions keep running"),
    ]
};

/// One key with its modifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Key {
    /// Returns the key of an event; `None` for a release.
    pub fn of(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let mut modifiers = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let code = match event.code {
            // Terminals send these control characters without their key.
            KeyCode::Char(digit @ '4'..='7') if modifiers.contains(KeyModifiers::CONTROL) => {
                KeyCode::Char(['\\', ']', '^', '_'][digit as usize - '4' as usize])
            }
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::SHIFT) => {
                modifiers.remove(KeyModifiers::SHIFT);
                // With a keyboard protocol, Shift and the plain letter arrive.
                KeyCode::Char(if modifiers.is_empty() { c.to_uppercase().next().unwrap_or(c) } else { c })
            }
            KeyCode::BackTab => {
                modifiers.insert(KeyModifiers::SHIFT);
                KeyCode::Tab
            }
            code => code,
        };
        Some(Self { code, modifiers })
    }

    /// Parses `q`, `ctrl-k`, `shift-tab`, `f5` or `enter`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut modifiers = KeyModifiers::NONE;
        let mut name = text;
        loop {
            let (prefix, modifier) = match name {
                _ if name.len() > 5 && name.starts_with("ctrl-") => ("ctrl-", KeyModifiers::CONTROL),
                _ if name.len() > 4 && name.starts_with("alt-") => ("alt-", KeyModifiers::ALT),
                _ if name.len() > 6 && name.starts_with("shift-") => ("shift-", KeyModifiers::SHIFT),
                _ => break,
            };
            modifiers.insert(modifier);
            name = &name[prefix.len()..];
        }
        let code = match name {
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "pageup" => KeyCode::PageUp,
            "pagedown" => KeyCode::PageDown,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "enter" => KeyCode::Enter,
            "tab" => KeyCode::Tab,
            "space" => KeyCode::Char(' '),
            "esc" => KeyCode::Esc,
            "backspace" => KeyCode::Backspace,
            "delete" => KeyCode::Delete,
            "insert" => KeyCode::Insert,
            _ => match name.strip_prefix('f').and_then(|number| number.parse::<u8>().ok()) {
                Some(number @ 1..=24) => KeyCode::F(number),
                _ => {
                    let mut characters = name.chars();
                    KeyCode::Char(characters.next().filter(|c| !c.is_control() && characters.next().is_none())?)
                }
            },
        };
        Some(Self { code, modifiers })
    }

    /// Returns the key that sends this byte.
    pub fn of_byte(byte: u8) -> Self {
        match byte {
            0 => Self { code: KeyCode::Char(' '), modifiers: KeyModifiers::CONTROL },
            1..=0x1a => Self { code: KeyCode::Char(char::from(byte + b'a' - 1)), modifiers: KeyModifiers::CONTROL },
            0x1b..=0x1f => Self { code: KeyCode::Char(char::from(byte + 0x40)), modifiers: KeyModifiers::CONTROL },
            _ => Self { code: KeyCode::Char(char::from(byte)), modifiers: KeyModifiers::NONE },
        }
    }

    pub const fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "ctrl-"), (KeyModifiers::ALT, "alt-"), (KeyModifiers::SHIFT, "shift-")]
        {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        match self.code {
            KeyCode::Up => f.write_str("↑"),
            KeyCode::Down => f.write_str("↓"),
            KeyCode::Left => f.write_str("←"),
            KeyCode::Right => f.write_str("→"),
            KeyCode::PageUp => f.write_str("PgUp"),
            KeyCode::PageDown => f.write_str("PgDn"),
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(number) => write!(f, "F{number}"),
            KeyCode::Tab => f.write_str("tab"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A setting under `app.keys` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("app.keys.{0}: there is no such action; known are {known}", known = known_actions())]
    UnknownAction(String),
    #[error("app.keys.{action}: {key:?} is not a key; write for example q, ctrl-k, shift-tab, f5 or enter")]
    UnknownKey { action: Action, key: String },
}

fn known_actions() -> String {
    let names: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
    names.join(", ")
}

/// The keys in force.
#[derive(Debug, Clone)]
pub struct Keymap {
    keys: Vec<(Context, Action, Vec<Key>)>,
}

impl Default for Keymap {
    fn default() -> Self {
        Self::new(&BTreeMap::new()).expect("the table has valid keys")
    }
}

impl Keymap {
    /// Builds the keymap from the table and the settings: an action has the configured keys instead of its own.
    pub fn new(settings: &BTreeMap<String, Vec<String>>) -> Result<Self, BadKey> {
        let mut configured = Vec::new();
        for (name, keys) in settings {
            let action: Action = name.parse().map_err(|_| BadKey::UnknownAction(name.clone()))?;
            let parse = |key: &String| Key::parse(key).ok_or_else(|| BadKey::UnknownKey { action, key: key.clone() });
            configured.push((action, keys.iter().map(parse).collect::<Result<Vec<_>, _>>()?));
        }
        let keys_of = |binding: &Binding| match configured.iter().find(|(action, _)| *action == binding.action) {
            Some((_, keys)) => keys.clone(),
            None => binding.keys.iter().map(|key| Key::parse(key).expect("the table has valid keys")).collect(),
        };
        Ok(Self { keys: BINDINGS.iter().map(|it| (it.context, it.action, keys_of(it))).collect() })
    }

    /// Returns what a key does in a view. The view's own meaning comes first.
    pub fn action(&self, view: Context, key: Key) -> Option<Action> {
        let find = |wanted: Context| {
            let mut bound = self.keys.iter().filter(|(context, ..)| *context == wanted);
            bound.find(|(.., keys)| keys.contains(&key)).map(|(_, action, _)| *action)
        };
        find(view).or_else(|| find(Context::List))
    }

    /// Returns the first key of an action, for hints.
    pub fn key(&self, action: Action) -> Option<Key> {
        self.keys.iter().find(|(_, it, _)| *it == action).and_then(|(.., keys)| keys.first().copied())
    }

    /// Returns all keys of a view with their help.
    pub fn help(&self, view: Context) -> Vec<(String, &'static str)> {
        let actions = self.actions(view).into_iter().filter(|(_, keys, _)| !keys.is_empty());
        actions.map(|(_, keys, help)| (keys, help)).collect()
    }

    /// Returns everything that can be done in a view: the action, its keys and its help.
    pub fn actions(&self, view: Context) -> Vec<(Action, String, &'static str)> {
        let rows = self.keys.iter().zip(BINDINGS);
        let is_here = |context: Context| context == view || context == Context::List;
        rows.filter(|((context, ..), _)| is_here(*context))
            .map(|((_, action, keys), binding)| {
                let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
                (*action, keys.join(" "), binding.help)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).expect("a key")
    }

    #[test]
    fn every_key_has_one_meaning_in_each_view() {
        let keymap = Keymap::default();
        for view in [Context::List, Context::Agents, Context::Inbox, Context::Board, Context::History] {
            let mut seen: Vec<(Key, Action)> = Vec::new();
            for (_, action, keys) in keymap.keys.iter().filter(|(context, ..)| *context == view) {
                for key in keys {
                    assert!(!seen.iter().any(|(other, _)| other == key), "{view:?}: {key} has two meanings");
                    seen.push((*key, *action));
                }
            }
        }
    }

    #[test]
    fn keys_are_recognised_however_the_terminal_sends_them() {
        let of = |code, modifiers| Key::of(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('4'), KeyModifiers::CONTROL), Some(key("ctrl-\\")));
        assert_eq!(of(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(key("G")));
        assert_eq!(of(KeyCode::Char('g'), KeyModifiers::SHIFT), Some(key("G")));
        assert_eq!(of(KeyCode::BackTab, KeyModifiers::SHIFT), Some(key("shift-tab")));
        assert_eq!(
            (Key::of_byte(0x1c), Key::of_byte(1), Key::of_byte(b'd')),
            (key("ctrl-\\"), key("ctrl-a"), key("d"))
        );
    }

    #[test]
    fn settings_replace_the_keys_of_an_action_and_wrong_ones_are_named() {
        let settings = |name: &str, keys: &[&str]| {
            BTreeMap::from([(name.to_owned(), keys.iter().map(|it| (*it).to_owned()).collect())])
        };
        let keymap = Keymap::new(&settings("quit", &["ctrl-q"])).expect("good settings");
        assert_eq!(keymap.action(Context::Agents, key("ctrl-q")), Some(Action::Quit));
        assert_eq!(keymap.action(Context::Agents, key("q")), None);
        let unknown = Keymap::new(&settings("fly", &["x"])).expect_err("no such action");
        assert!(unknown.to_string().starts_with("app.keys.fly: there is no such action; known are up, down"));
        assert!(Keymap::new(&settings("quit", &["ctrl-"])).is_err());
    }

    #[test]
    fn the_help_lists_the_keys_of_the_view_and_of_every_view() {
        let help = Keymap::default().help(Context::Board);
        assert!(help.contains(&("s".to_owned(), "start the task")));
        assert!(help.contains(&(": ctrl-k".to_owned(), "commands")));
        assert!(!help.iter().any(|(_, text)| text.contains("session that was never launched")));
    }
}
