//! `coven inbox`: what waits for a person, and the answers.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use coven_api::inbox::{InboxItem, InboxResponse};
use coven_domain::Timestamp;
use coven_host::clock;

use crate::chat::{self, Chosen};
use crate::command_line::Place;
use crate::failure::Failure;
use crate::link::{Link, block_on};
use crate::table::Table;
use crate::{output, route, wording};

/// Lists what waits for a person, shows it, and answers it
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  coven inbox
  coven inbox show 1a2b               everything the agent told about it
  coven inbox answer 1a2b allow       the first option that means it; deny likewise
  coven inbox answer 1a2b allow_always    one of its options
  coven inbox --json --all | jq '.items[].title'

The first answer counts; a second one exits with 4."
)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// What was answered or cancelled too
    #[arg(long)]
    all: bool,
    /// Of this session only
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the records
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Shows one question with its options
    Show {
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
    /// Answers a question
    Answer {
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        id: String,
        /// allow, deny, or the id of one of its options
        #[arg(value_name = "allow|deny|OPTION")]
        answer: String,
        /// Print the record
        #[arg(long)]
        json: bool,
    },
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    block_on(async {
        let mut link = Link::open(&home).await?;
        match args.verb {
            None => list(&mut link, args.all, args.session, args.json).await?,
            Some(Verb::Show { id, json: true }) => link.print_json(&route::question(&id, "")).await?,
            Some(Verb::Show { id, json: false }) => {
                let item: InboxItem = link.get(&route::question(&id, "")).await?;
                output::bytes(details(&item, clock::now()).as_bytes())?;
            }
            Some(Verb::Answer { id, answer, json }) => {
                let chosen = match answer.as_str() {
                    "allow" => Chosen::Allow,
                    "deny" => Chosen::Deny,
                    _ => Chosen::Option(answer),
                };
                let item = chat::request::answer(&mut link, &id, &chosen).await?;
                match json {
                    true => output::line(format_args!("{}", serde_json::to_string(&item).expect("plain data")))?,
                    false => {
                        let (title, answer) = (wording::plain(&item.title), wording::plain(&answer_of(&item)));
                        output::line(format_args!("answered: {title}: {answer}"))?;
                    }
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn list(link: &mut Link, all: bool, session: Option<String>, as_json: bool) -> Result<(), Failure> {
    let session = match session {
        Some(id) => Some(link.session(&id).await?.id),
        None => None,
    };
    let query = route::query(&[("all", all.then(|| "true".to_owned())), ("session", session)]);
    let path = format!("/api/v1/inbox{query}");
    if as_json {
        return link.print_json(&path).await;
    }
    let inbox: InboxResponse = link.get(&path).await?;
    if inbox.items.is_empty() {
        output::note(format_args!("nothing waits for you"));
        return Ok(());
    }
    let width = output::terminal_size().map(|(_, cols)| usize::from(cols));
    output::bytes(table(&inbox.items, all, clock::now()).text(width).as_bytes())
}

fn table(items: &[InboxItem], all: bool, now: Timestamp) -> Table {
    let last = if all { "STATUS" } else { "OPTIONS" };
    let mut table = Table::new(&["ID", "AGE", "SESSION", "HARNESS", "ASKS", last], &[5, 4]);
    for item in items {
        let short = |id: &Option<String>| id.as_deref().map_or("-", wording::short_id).to_owned();
        let options: Vec<&str> = item.options.iter().map(|option| option.id.as_str()).collect();
        let state = match item.status.as_str() {
            "pending" if !all => options.join(", "),
            "answered" => format!("answered: {}", answer_of(item)),
            status => status.to_owned(),
        };
        table.row([
            wording::short_id(&item.id).to_owned(),
            wording::age(&item.created_at, now),
            short(&item.session_id),
            item.harness.clone().unwrap_or_else(|| "-".to_owned()),
            item.title.clone(),
            state,
        ]);
    }
    table
}

fn answer_of(item: &InboxItem) -> String {
    let answer = item.answer.as_deref().unwrap_or("-");
    let option = item.options.iter().find(|option| option.id == answer);
    option.map_or_else(|| answer.to_owned(), |option| option.name.clone())
}

/// Everything about one question.
fn details(item: &InboxItem, now: Timestamp) -> String {
    let age = wording::age(&item.created_at, now);
    let mut lines = vec![
        ("id", item.id.clone()),
        ("asks", item.title.clone()),
        ("kind", item.kind.clone()),
        ("status", item.status.clone()),
        ("asked", format!("{} ({age} ago)", item.created_at)),
    ];
    lines.extend(item.session_id.clone().map(|id| ("session", id)));
    lines.extend(item.harness.clone().map(|harness| ("harness", harness)));
    lines.extend(item.answer.as_ref().map(|_| ("answer", answer_of(item))));
    lines.extend(item.answered_by.clone().map(|by| ("by", by)));
    for option in &item.options {
        lines.push(("option", format!("{}  {} ({})", option.id, option.name, option.kind.replace('_', " "))));
    }
    let mut text: String = lines.iter().map(|(name, value)| format!("{name:<10}{}\n", wording::plain(value))).collect();
    for row in chat::request_rows(&item.detail) {
        text.push_str(&row.text());
        text.push('\n');
    }
    if item.status == "pending" {
        text.push_str(&format!("\ncoven inbox answer {} allow|deny\n", wording::short_id(&item.id)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use coven_api::inbox::InboxOption;
    use serde_json::json;

    fn item() -> InboxItem {
        let option =
            |id: &str, name: &str, kind: &str| InboxOption { id: id.into(), name: name.into(), kind: kind.into() };
        InboxItem {
            id: "0c7e49a2-3b1d".into(),
            kind: "permission".into(),
            status: "pending".into(),
            session_id: Some("1a2b3c4d-0000".into()),
            harness: Some("goose".into()),
            repo_id: None,
            title: "touch x\x1b[2J".into(),
            created_at: "2025-11-15T20:23:05.000Z".into(),
            answered_at: None,
            answered_by: None,
            answer: None,
            options: vec![option("yes", "Yes", "allow_once"), option("no", "No", "reject_once")],
            detail: json!({"toolCall": {"title": "shell", "rawInput": {"command": "touch x"}}}),
        }
    }

    #[test]
    fn a_row_has_what_is_needed_to_answer() {
        let now = Timestamp::from_millis(1_763_238_189_007);
        let text = table(&[item()], false, now).text(None);
        let expected = "ID        AGE  SESSION   HARNESS  ASKS          OPTIONS\n\
                        0c7e49a2  4s   1a2b3c4d  goose    touch x [2J  yes, no\n";
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
    }

    #[test]
    fn what_was_answered_says_how() {
        let answered = InboxItem { status: "answered".into(), answer: Some("no".into()), ..item() };
        let text = table(&[answered, item()], true, Timestamp::from_millis(0)).text(None);
        assert!(
            text.contains("answered: No") && text.lines().nth(2).is_some_and(|line| line.ends_with("pending")),
            "{text}"
        );
    }

    #[test]
    fn the_details_tell_what_the_agent_wants_to_do() {
        let text = details(&item(), Timestamp::from_millis(1_763_238_189_007));
        for part in ["option    yes  Yes (allow once)", "shell: touch x", "coven inbox answer 0c7e49a2 allow|deny"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains('\x1b'));
    }
}
