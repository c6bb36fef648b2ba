//! What the app needs from the program that opens it.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use coven_client::Client;
use coven_domain::{SessionId, string_enum};

use crate::frame::keymap::{Key, Keymap};

string_enum! {
    /// The views of the app, in the order of the first row.
    pub enum View { Agents = "Agents", Inbox = "Inbox", Board = "Board", History = "History" }
}

/// Connects to the daemon. Starts it if it is not running. An error is a text for people.
pub type Connect = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Client, String>> + Send>> + Send + Sync>;

/// Writes a session's recording to a file, in the format of its extension. It may take long.
pub type Export = Arc<dyn Fn(SessionId, &Path) -> Result<(), String> + Send + Sync>;

/// How the app starts.
pub struct Setup {
    pub connect: Connect,
    pub export: Export,
    pub view: View,
    /// The id of the session, task or inbox item to select.
    pub selected: Option<String>,
    /// Focus the pane of the selection.
    pub is_focused: bool,
    /// The text of the list's filter.
    pub filter: String,
    /// The session that the app itself runs in. It is never shown.
    pub own_session: Option<SessionId>,
    /// Where launches start, with the environment of the shell.
    pub launch: LaunchContext,
    pub settings: Settings,
}

/// What a launch from the app passes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchContext {
    pub cwd: String,
    pub project_root: Option<String>,
    pub env: BTreeMap<String, String>,
}

impl LaunchContext {
    /// Returns a path as the user typed it, with `~` as the home folder.
    pub fn path(&self, typed: &str) -> String {
        match (typed.strip_prefix('~'), self.env.get("HOME")) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
            _ => typed.to_owned(),
        }
    }
}

/// The user's settings.
#[derive(Debug, Clone)]
pub struct Settings {
    pub keymap: Keymap,
    /// The keys that return from a focused pane to the list: one, or two in a row.
    pub detach_keys: Vec<Key>,
    pub is_mouse_on: bool,
    /// Agents may put text on the clipboard of the terminal (OSC 52).
    pub is_clipboard_on: bool,
    /// Ring the bell when something new needs the user.
    pub is_bell_on: bool,
    pub has_colors: bool,
    /// The file with the kept pane layout.
    pub layout_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            keymap: Keymap::default(),
            detach_keys: vec![Key::of_byte(0x1c)],
            is_mouse_on: true,
            is_clipboard_on: false,
            is_bell_on: false,
            has_colors: true,
            layout_file: None,
        }
    }
}
