//! Opens the terminal app on this terminal.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use coven_app::{Connect, Ended, Export, Key, Keymap, LaunchContext, Settings, Setup, View};
use coven_domain::SessionId;
use coven_host::config::{self, Config, DetachKeys};
use coven_host::home::Home;
use signal_hook::low_level::emulate_default_handler;

use crate::daemon_client::{DaemonClient, block_on};
use crate::daemon_connector::DaemonConnector;
use crate::failure::Failure;
use crate::verb::{self, attach};
use crate::{output, own_session};

/// What the app shows first.
#[derive(Debug)]
pub struct Opening {
    pub view: View,
    /// The id of the session, task or inbox item to select.
    pub selected: Option<String>,
    /// Focus its pane.
    pub is_focused: bool,
    /// The filter of the list.
    pub filter: String,
}

impl Opening {
    pub const fn view(view: View) -> Self {
        Self { view, selected: None, is_focused: false, filter: String::new() }
    }

    pub fn focused(selected: String) -> Self {
        Self { selected: Some(selected), is_focused: true, ..Self::view(View::Agents) }
    }
}

/// Shows the app until the user leaves it.
pub fn open(home: &Home, opening: Opening) -> Result<ExitCode, Failure> {
    let (config, _) = config::load(home)?;
    let settings = settings(home, &config)?;
    // Starts the daemon before the screen opens, so that its errors and questions are readable.
    block_on(DaemonClient::open(home))?;
    let setup = Setup {
        connect: connect(home)?,
        export: export(home),
        view: opening.view,
        selected: opening.selected,
        is_focused: opening.is_focused,
        filter: opening.filter,
        own_session: own_session::id().and_then(|id| id.parse().ok()),
        launch: LaunchContext { cwd: verb::folder(None)?, project_root: None, env: verb::environment() },
        settings,
    };
    match coven_app::run(setup).map_err(|error| Failure::Terminal(std::io::Error::other(error)))? {
        Ended::Quit => Ok(ExitCode::SUCCESS),
        Ended::Signal(signal) => {
            emulate_default_handler(signal).map_err(Failure::Terminal)?;
            // The signal ends the program; a handler of the shell may have kept it alive.
            Ok(attach::signal_code(signal))
        }
    }
}

fn settings(home: &Home, config: &Config) -> Result<Settings, Failure> {
    let keymap = keymap(config)?;
    let detach = DetachKeys::parse(&config.sessions.detach_keys).unwrap_or(DetachKeys { bytes: vec![0x1c] });
    let has_colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Ok(Settings {
        keymap,
        detach_keys: detach.bytes.into_iter().map(Key::of_byte).collect(),
        is_mouse_on: config.app.mouse,
        is_clipboard_on: config.app.clipboard,
        is_bell_on: config.notifications.bell,
        has_colors,
        layout_file: Some(home.path().join("app-layout.json")),
    })
}

/// Returns the keys of the app, or the setting that is wrong.
pub fn keymap(config: &Config) -> Result<Keymap, Failure> {
    let hint = "Correct it in the config; `coven config check` names the file";
    Keymap::new(&config.app.keys).map_err(|error| Failure::usage(error.to_string(), hint))
}

fn connect(home: &Home) -> Result<Connect, Failure> {
    let connector = DaemonConnector::to(home)?;
    Ok(Arc::new(move || {
        let connector = connector.clone();
        Box::pin(async move { connector.open().await.map_err(|failure| failure.sentence()) })
    }))
}

/// Exports with this program, whose messages must not reach the screen.
fn export(home: &Home) -> Export {
    let home = home.path().to_owned();
    Arc::new(move |session: SessionId, path: &Path| {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("--home").arg(&home).args(["export", &session.to_string(), "--output"]).arg(path);
        let done = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        match done.status.success() {
            true => Ok(()),
            false => Err(first_line(&String::from_utf8_lossy(&done.stderr))),
        }
    })
}

fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("the export failed");
    line.trim_start_matches("coven: ").to_owned()
}

/// Reports whether a verb with a screen opens the app: it does on a terminal, unless a list was asked for.
pub fn is_wanted(wants_list: bool) -> bool {
    !wants_list && output::has_screen()
}
