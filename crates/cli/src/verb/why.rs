//! `coven why`: says what a session's agent is doing, and shows the evidence.

use std::process::ExitCode;

use coven_api::activity::{ActivityResponse, HookStatus, ObservationRecord};
use coven_api::routes::{Endpoint, ReadActivity};
use coven_domain::Timestamp;
use coven_domain::activity::{Activity, ActivityFact, Verdict};
use coven_holder::clock;

use super::SessionArg;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::failure::Failure;
use crate::table::Table;
use crate::{format, output};

/// Shows what the agent of a session is doing, and how coven knows
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven why 1a2b
  coven why 1a2b --json | jq -r .activity

The last line of the evidence is the newest. Effects: changed the activity; confirmed it; held: a stronger source says
something else, so it counts if that source stays silent; ignored: it means nothing for the current activity.")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        let request = ReadActivity::of(&args.session.id);
        if args.json {
            link.print_json(request).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let evidence = link.call(request).await?;
        let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
        output::text(&page(&evidence, clock::now(), width))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Formats the activity, one field per line, and a table of the evidence.
fn page(it: &ActivityResponse, now: Timestamp, width: Option<usize>) -> String {
    let mut lines = vec![("session", it.session_id.to_string()), ("activity", activity(it, now))];
    lines.extend(it.detail.clone().map(|detail| ("detail", detail)));
    lines.extend(it.source.map(|source| ("source", source.to_string())));
    lines.extend(it.unseen.then(|| ("unseen", "yes: no client has shown the session since".to_owned())));
    lines.push(("hooks", hooks(it.hooks, it.hooks_reason.as_deref())));
    if it.background > 0 {
        let count = usize::try_from(it.background).unwrap_or(usize::MAX);
        lines.push(("tasks", format!("{} running in the background", format::count(count, "task"))));
    }
    let mut text: String =
        lines.iter().map(|(name, value)| format!("{name:<10}{}\n", format::sanitize_line(value))).collect();
    text.push('\n');
    match it.observations.as_slice() {
        [] => text.push_str("No source has reported anything.\n"),
        observations => text.push_str(&table(observations, now).text(width)),
    }
    text
}

fn activity(it: &ActivityResponse, now: Timestamp) -> String {
    match (it.activity, it.since) {
        (None, _) => "none: the session is not running".to_owned(),
        (Some(Activity::Unknown), _) if it.observations.is_empty() => {
            "unknown: this program reports nothing that coven understands".to_owned()
        }
        (Some(activity), None) => activity.to_string(),
        (Some(activity), Some(since)) => {
            format!("{activity} for {}, since {since}", format::format_duration(now.since(since)))
        }
    }
}

fn hooks(status: HookStatus, reason: Option<&str>) -> String {
    match status {
        HookStatus::Off => "none: coven passes no hooks to this program".to_owned(),
        HookStatus::Unavailable => format!("unavailable: {}", reason.unwrap_or("the reason is not known")),
        HookStatus::Silent => "silent: coven passed hooks at launch, and they have not reported yet".to_owned(),
        HookStatus::Reporting => "reporting".to_owned(),
    }
}

fn table(observations: &[ObservationRecord], now: Timestamp) -> Table {
    let mut table = Table::new(&["TIME", "AGO", "SOURCE", "FACT", "EFFECT", "DETAIL"], &[5]);
    for it in observations {
        let time = it.at.to_string();
        table.row([
            // The date is rarely needed, and the age tells days apart.
            time.get(11..23).unwrap_or(&time).to_owned(),
            format::format_duration(now.since(it.at)),
            it.source.to_string(),
            fact(it.fact).to_owned(),
            effect(it.verdict).to_owned(),
            it.detail.clone().unwrap_or_default(),
        ]);
    }
    table
}

const fn fact(fact: ActivityFact) -> &'static str {
    match fact {
        ActivityFact::Worked => "works",
        ActivityFact::PermissionAsked => "asks for permission",
        ActivityFact::QuestionAsked => "asks a question",
        ActivityFact::Settled => "request settled",
        ActivityFact::TurnEnded => "turn ended",
        ActivityFact::Rested => "does not work",
        ActivityFact::LimitReached => "limit reached",
        ActivityFact::Lost => "evidence lost",
    }
}

const fn effect(verdict: Verdict) -> &'static str {
    verdict.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_domain::activity::ActivitySource;

    const NOW: Timestamp = Timestamp::from_millis(1_763_238_189_007);

    fn evidence() -> ActivityResponse {
        let before = |seconds: i64| Timestamp::from_millis(NOW.as_millis() - seconds * 1000);
        let seen = |number, seconds, fact, detail: Option<&str>| ObservationRecord {
            number,
            at: before(seconds),
            source: ActivitySource::Hook,
            fact,
            detail: detail.map(str::to_owned),
            verdict: Verdict::Changed,
        };
        ActivityResponse {
            session_id: "5e550000-0000-4000-8000-000000000001".parse().expect("an id"),
            activity: Some(Activity::Permission),
            since: Some(before(12)),
            source: Some(ActivitySource::Hook),
            detail: Some("wants to run: cargo test".to_owned()),
            unseen: true,
            hooks: HookStatus::Reporting,
            hooks_reason: None,
            background: 1,
            observations: vec![
                seen(1, 90, ActivityFact::Worked, None),
                seen(2, 12, ActivityFact::PermissionAsked, Some("wants to run: cargo test")),
            ],
        }
    }

    #[test]
    fn the_page_explains_the_activity() {
        let expected = "\
session   5e550000-0000-4000-8000-000000000001
activity  permission for 12s, since 2025-11-15T20:22:57.007Z
detail    wants to run: cargo test
source    hook
unseen    yes: no client has shown the session since
hooks     reporting
tasks     1 task running in the background

TIME          AGO  SOURCE  FACT                 EFFECT   DETAIL
20:21:39.007  1m   hook    works                changed
20:22:57.007  12s  hook    asks for permission  changed  wants to run: cargo test
";
        assert_eq!(page(&evidence(), NOW, None), expected);
    }

    #[test]
    fn silent_hooks_and_missing_evidence_are_named() {
        let nothing = ActivityResponse {
            activity: Some(Activity::Unknown),
            since: None,
            source: None,
            detail: None,
            unseen: false,
            hooks: HookStatus::Silent,
            background: 0,
            observations: Vec::new(),
            ..evidence()
        };
        let text = page(&nothing, NOW, None);
        assert!(text.contains("hooks     silent: coven passed hooks at launch"), "{text}");
        assert!(text.contains("activity  unknown: ") && text.ends_with("No source has reported anything.\n"), "{text}");
        let ended = page(&ActivityResponse { activity: None, ..nothing }, NOW, None);
        assert!(ended.contains("activity  none: the session is not running"), "{ended}");
    }
}
