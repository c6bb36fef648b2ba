//! `coven doctor`: checks everything that a session needs and advises on problems.

use std::path::Path;
use std::process::ExitCode;

use coven_api::health::API_VERSION;
use coven_api::list::{List, MAX_LIMIT};
use coven_api::routes::{Endpoint, Health, ListSessions};
use coven_api::session::ListSessionsQuery;
use coven_domain::session::SessionState;
use coven_host::home::Home;
use coven_host::{config, program, trust};
use serde::Serialize;

use super::harness::harnesses;
use super::page::PageArgs;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::{VERSION, format, log_check, output};

/// Checks home, config, daemon, harnesses and tools, and advises on problems
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  coven doctor\n  coven doctor --json | jq '.items[] | select(.verdict != \"ok\")'")]
pub struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    /// Works, but has a limitation.
    Note,
    Wrong,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    text: String,
}

fn finding(what: &'static str, verdict: Verdict, text: impl Into<String>) -> Finding {
    Finding { what, verdict, text: text.into() }
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let mut findings = vec![finding("version", Verdict::Ok, VERSION)];
    match place.unchecked_home() {
        Ok(home) => findings.extend(examine(&home)),
        Err(failure) => findings.push(finding("home", Verdict::Wrong, failure.sentence())),
    }
    findings.push(match program::find("git", std::env::var_os("PATH").as_deref()) {
        Some(path) => finding("git", Verdict::Ok, path.display().to_string()),
        None => finding(
            "git",
            Verdict::Note,
            "not found; sessions work, but repositories and worktrees need it: install git",
        ),
    });
    findings.extend(desktop(place));
    if args.json {
        output::record(&List::whole(findings.iter().collect()))?;
    } else {
        let line =
            |it: &Finding| format!("{:<5} {:<9} {}\n", mark(it.verdict), it.what, format::sanitize_line(&it.text));
        output::text(&findings.iter().map(line).collect::<String>())?;
    }
    let is_healthy = findings.iter().all(|finding| finding.verdict != Verdict::Wrong);
    Ok(if is_healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks the program for desktop notifications, if they are enabled.
fn desktop(place: &Place) -> Option<Finding> {
    let config = config::read(&place.unchecked_home().ok()?).ok()?;
    if !config.notifications.desktop {
        return None;
    }
    Some(match program::find("notify-send", std::env::var_os("PATH").as_deref()) {
        Some(path) => finding("desktop", Verdict::Ok, path.display().to_string()),
        None => finding(
            "desktop",
            Verdict::Note,
            "notify-send not found; desktop notifications do not work: install libnotify, or set \
             notifications.desktop to false",
        ),
    })
}

fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Note => "note",
        Verdict::Wrong => "WRONG",
    }
}

fn examine(home: &Home) -> Vec<Finding> {
    let mut findings = vec![examine_home(home)];
    match config::load(home) {
        Ok((_, withheld)) => {
            findings.push(match home.config_file().exists() {
                true => finding("config", Verdict::Ok, home.config_file().display().to_string()),
                false => {
                    let text = format!("{} does not exist; the defaults apply", home.config_file().display());
                    finding("config", Verdict::Note, text)
                }
            });
            findings.extend(withheld.notice(home.path()).map(|notice| finding("trust", Verdict::Note, notice)));
        }
        Err(error) => findings.push(finding("config", Verdict::Wrong, Failure::from(error).sentence())),
    }
    findings.extend(exposure(home));
    if findings.iter().any(|finding| finding.verdict == Verdict::Wrong) {
        // The daemon would report the same errors.
        return findings;
    }
    findings.extend(space(home.path()));
    match block_on(examine_daemon(home)) {
        Ok(more) => findings.extend(more),
        Err(failure) => findings.push(finding("daemon", Verdict::Wrong, failure.sentence())),
    }
    findings
}

fn examine_home(home: &Home) -> Finding {
    let probe = || -> Result<(), Failure> {
        home.socket()?;
        home.create()?;
        let file = tempfile::tempfile_in(home.path());
        file.map(drop).map_err(|source| Failure::File { path: home.path().to_owned(), source })
    };
    match probe() {
        Ok(()) => finding("home", Verdict::Ok, home.path().display().to_string()),
        Err(failure) => finding("home", Verdict::Wrong, failure.sentence()),
    }
}

/// Checks whether other users could replace the home.
fn exposure(home: &Home) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(parent) = home.path().parent()
        && trust::others_can_write(parent)
    {
        let text = format!("other users can write to {}, which contains the home; move the home", parent.display());
        findings.push(finding("home", Verdict::Note, text));
    }
    findings
}

fn space(path: &Path) -> Option<Finding> {
    let stats = rustix::fs::statvfs(path).ok()?;
    let free = stats.f_bavail * stats.f_frsize;
    let verdict = if free < 1 << 30 { Verdict::Note } else { Verdict::Ok };
    Some(finding("disk", verdict, format!("{} free", format::size(free))))
}

async fn examine_daemon(home: &Home) -> Result<Vec<Finding>, Failure> {
    let mut link = DaemonClient::open(home).await?;
    let health = link.call(Health::request()).await?;
    let live = usize::try_from(health.sessions_live).unwrap_or(usize::MAX);
    let mut findings = vec![match VERSION.starts_with(&health.version) && health.api_version == API_VERSION {
        true => {
            finding("daemon", Verdict::Ok, format!("pid {}, {} running", health.pid, format::count(live, "session")))
        }
        false => {
            let advice = "restart it with `coven daemon restart`; sessions keep running";
            finding(
                "daemon",
                Verdict::Note,
                format!("has version {}, this program has {VERSION}; {advice}", health.version),
            )
        }
    }];
    findings.extend(examine_limits(home, health.launches_queued));
    findings.extend(health.problems.into_iter().map(|problem| finding("daemon", Verdict::Note, problem)));
    let list = link.call(harnesses(true, PageArgs { limit: Some(MAX_LIMIT), cursor: None })).await?;
    for harness in list.items {
        let (verdict, text) = match (harness.is_installed, harness.version) {
            (true, version) => (Verdict::Ok, version.unwrap_or_else(|| harness.path.unwrap_or_default())),
            (false, _) => (Verdict::Note, format!("not installed; {}", harness.note)),
        };
        findings.push(finding("harness", verdict, format!("{}: {text}", harness.id)));
    }
    findings.push(examine_logs(&mut link).await?);
    Ok(findings)
}

/// Reports the limits that delay launches, and how many wait.
fn examine_limits(home: &Home, queued: u64) -> Option<Finding> {
    let limits = config::read(home).ok()?.limits;
    let all = [
        limits.live_agents.map(|limit| format!("live agents {limit}")),
        limits.memory_bytes.map(|limit| format!("memory {}", format::size(limit))),
        limits.load.map(|load| format!("load {load} per core")),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    match (all.is_empty(), queued) {
        (true, 0) => None,
        (_, 0) => Some(finding("limits", Verdict::Ok, format!("{}; no launch waits", all.join(", ")))),
        _ => {
            let waiting = format::count(usize::try_from(queued).unwrap_or(usize::MAX), "session");
            let advice = "see `coven sessions --plain --status created`";
            let text = format!("{}; launches that wait: {waiting}; {advice}", all.join(", "));
            Some(finding("limits", Verdict::Note, text.trim_start_matches("; ").to_owned()))
        }
    }
}

/// Compares the length of every log with its record. Contents are checked when a log is shown.
async fn examine_logs(link: &mut DaemonClient) -> Result<Finding, Failure> {
    let (mut damaged, mut count) = (Vec::new(), 0);
    let mut query = ListSessionsQuery { limit: Some(1000), ..ListSessionsQuery::default() };
    loop {
        let page = link.call(ListSessions::request().query(&query)).await?;
        for record in page.items.iter().filter(|record| record.status != SessionState::Created) {
            count += 1;
            damaged.extend(log_check::missing(link, &record.id.to_string()).await?);
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    Ok(match damaged.is_empty() {
        true => finding("logs", Verdict::Ok, format!("{count} complete")),
        false => finding("logs", Verdict::Wrong, damaged.join("; ")),
    })
}
