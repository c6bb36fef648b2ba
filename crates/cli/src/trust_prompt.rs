//! Asks the user before settings that came with a repository or archive are used. See `docs/security.md`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use coven_api::ErrorCode;
use coven_client::ClientError;
use coven_holder::process;
use coven_host::config;
use coven_host::git::{self, GitError};
use coven_host::home::Home;
use coven_host::spawner::Settings;
use coven_host::trust::{self, Part, TrustStore};
use serde::Serialize;

use crate::command_line::Place;
use crate::failure::Failure;
use crate::format;

/// The state and settings that need the user's agreement.
#[derive(Debug, Default)]
pub struct Request {
    home: Option<Home>,
    /// Names of state files in the home that were not created on this machine.
    pub state: Vec<String>,
    /// Settings of the home.
    pub settings: Vec<Part>,
    /// Settings outside of the home.
    pub others: Vec<Others>,
}

/// Settings of a repository's Git config, or of a conversation tool.
#[derive(Debug, Serialize)]
pub struct Others {
    pub folder: PathBuf,
    pub what: &'static str,
    pub settings: Vec<Part>,
}

impl Request {
    /// Collects everything in a home and in the repository of a folder that needs agreement.
    pub fn about(home: Option<Home>, folder: &Path) -> Result<Self, Failure> {
        let mut request = Self::default();
        if let Some(home) = &home {
            if home.was_found() && !home.is_recorded() {
                request.state = home.state();
            }
            request.settings = trust::unsettled(home, &config::read(home)?, true);
        }
        request.home = home;
        match git::untrusted_settings(folder) {
            Ok((_, settings)) if settings.is_empty() => {}
            Ok((folder, settings)) => request.others.push(Others { folder, what: "Git config", settings }),
            Err(GitError::NotARepository(_) | GitError::NotRun(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let (folder, settings) = Settings::untrusted(folder);
        if !settings.is_empty() {
            request.others.push(Others { folder, what: "conversation settings", settings });
        }
        Ok(request)
    }

    pub fn is_empty(&self) -> bool {
        self.state.is_empty() && self.settings.is_empty() && self.others.is_empty()
    }

    pub fn home(&self) -> Option<&Home> {
        self.home.as_ref()
    }

    /// Describes what would be used and run.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut list = |head: String, parts: &[Part]| {
            text.push_str(&format!("{}\n", format::sanitize_line(&head)));
            for part in parts {
                text.push_str(&format!(
                    "  {}: {}\n",
                    format::sanitize_line(&part.key),
                    format::sanitize_line(&part.effect)
                ));
                for line in part.details.iter().flat_map(|detail| detail.lines()).filter(|line| !line.is_empty()) {
                    text.push_str(&format!("      {}\n", format::sanitize_line(line)));
                }
            }
        };
        if let Some(home) = &self.home {
            let path = home.path().display();
            if !self.state.is_empty() {
                list(format!("{path} has state that was not created on this machine: {}", self.state.join(", ")), &[]);
            }
            if !self.settings.is_empty() {
                list(format!("{path} has settings that came with a repository or archive:"), &self.settings);
            }
        }
        for others in &self.others {
            list(
                format!("{} has {} that can run commands or open files:", others.folder.display(), others.what),
                &others.settings,
            );
        }
        text
    }

    /// Removes content that the user declined before: coven asks about the same content once.
    fn without_declined(mut self) -> Result<Self, Failure> {
        let store = TrustStore::locate()?;
        if let Some(home) = &self.home {
            let agreement = store.agreement(home.path());
            self.settings.retain(|part| !agreement.declines(part));
        }
        for others in &mut self.others {
            let agreement = store.agreement(&others.folder);
            others.settings.retain(|part| !agreement.declines(part));
        }
        self.others.retain(|others| !others.settings.is_empty());
        Ok(self)
    }

    /// Records that the user declined.
    fn decline(&self) -> Result<(), Failure> {
        let store = TrustStore::locate()?;
        if let Some(home) = &self.home {
            store.decline(home.path(), &self.settings)?;
        }
        for others in &self.others {
            store.decline(&others.folder, &others.settings)?;
        }
        Ok(())
    }

    /// Records the user's agreement.
    pub fn agree(&self) -> Result<(), Failure> {
        let store = TrustStore::locate()?;
        if let Some(home) = &self.home {
            // Settings first: coven uses a home as soon as it is recorded.
            store.agree(home.path(), &self.settings)?;
            if !self.state.is_empty() {
                home.adopt()?;
            }
        }
        for others in &self.others {
            store.agree(&others.folder, &others.settings)?;
        }
        Ok(())
    }
}

/// Asks about settings that a starting daemon would use, once for each content.
pub fn ask_before_start(home: &Home) -> Result<(), Failure> {
    if !can_ask() {
        return Ok(());
    }
    // Starting the daemon reports an invalid config.
    let Ok(config) = config::read(home) else { return Ok(()) };
    let settings = trust::unsettled(home, &config, false);
    if settings.is_empty() {
        return Ok(());
    }
    let request = Request { home: Some(home.clone()), settings, ..Request::default() };
    match ask(&request)? {
        true => request.agree(),
        false => request.decline(),
    }
}

/// Asks after a command failed for lack of trust. Returns whether the user agreed.
pub fn ask_after(failure: &Failure, place: &Place) -> Result<bool, Failure> {
    let is_about_trust =
        matches!(failure, Failure::Client(error @ ClientError::Api { .. }) if error.is(ErrorCode::TrustRequired));
    if !is_about_trust || !can_ask() {
        return Ok(false);
    }
    let folder = std::env::current_dir().map_err(Failure::Input)?;
    let request = Request::about(Some(place.unchecked_home()?), &folder)?;
    let request = request.without_declined()?;
    if request.is_empty() {
        return Ok(false);
    }
    match ask(&request)? {
        true => request.agree().map(|()| true),
        false => request.decline().map(|()| false),
    }
}

/// Shows the request and asks for confirmation.
pub fn ask(request: &Request) -> Result<bool, Failure> {
    let mut err = io::stderr().lock();
    let question = format!("{}Use all of this? [y/N] ", request.text());
    err.write_all(question.as_bytes()).and_then(|()| err.flush()).map_err(Failure::Output)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::Input)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Returns whether a person, not an agent, can answer.
pub fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal() && !is_in_session()
}

/// Returns whether this process belongs to a session of coven, so that an agent may have started it.
pub fn is_in_session() -> bool {
    let is_marked = std::env::var_os("COVEN_SESSION_ID").is_some_and(|id| !id.is_empty());
    let mut ancestors =
        std::iter::successors(process::stat(std::process::id()).ok(), |it| process::stat(it.parent).ok());
    is_marked || ancestors.any(|it| it.is_coven)
}
