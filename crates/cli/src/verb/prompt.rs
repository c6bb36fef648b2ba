//! `coven prompt`: sends a prompt to an ACP session, for scripts.

use std::process::ExitCode;

use coven_api::compat::PromptRequest;
use coven_api::routes::{Endpoint, PromptSession};
use serde_json::json;

use super::SessionArg;
use crate::chat::turn::Turn;
use crate::command_line::Place;
use crate::daemon_client::{DaemonClient, block_on};
use crate::daemon_connector::DaemonConnector;
use crate::failure::{self, Failure};
use crate::{format, output, piped};

/// Sends a prompt to an agent that was started with `run --acp`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  coven prompt 1a2b fix the failing tests      words are joined to one prompt
  coven prompt 1a2b --wait \"what is left?\"     prints the answer and exits when the turn ends
  git diff | coven prompt 1a2b --wait -        the prompt comes on standard input

A prompt sent during a turn is queued. With --wait, exits with 0 if the turn ended normally,
and with 1 if it was cancelled, refused or failed.")]
pub struct Args {
    #[command(flatten)]
    session: SessionArg,
    /// Prompt text; `-` reads standard input
    #[arg(required = true)]
    text: Vec<String>,
    /// Wait until the turn ends and print the answer
    #[arg(long)]
    wait: bool,
    /// Print the daemon's response as JSON; with --wait, the answer and the stop reason
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, place: &Place) -> Result<ExitCode, Failure> {
    let home = place.home()?;
    let text = text(&args.text)?;
    if args.wait {
        let record = block_on(async { DaemonClient::open(&home).await?.session(&args.session.id).await })?;
        return wait(DaemonConnector::to(&home)?, record.id.to_string(), &text, args.json);
    }
    block_on(async {
        let mut link = DaemonClient::open(&home).await?;
        let body = PromptRequest { text };
        let accepted = link.call(PromptSession::of(&args.session.id).body(&body)).await?;
        match args.json {
            true => output::json(json!(accepted).to_string().as_bytes())?,
            false => {
                let short = format::short_id(&args.session.id);
                output::line(format_args!("accepted; see the answer with `coven chat {short}`"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn text(words: &[String]) -> Result<String, Failure> {
    let text = match words {
        [dash] if dash == "-" => piped::text()?,
        words => words.join(" "),
    };
    match text.trim() {
        "" => Err(Failure::usage("the prompt is empty", "Give some text, or `-` to read standard input")),
        _ => Ok(text),
    }
}

fn wait(connector: DaemonConnector, id: String, text: &str, as_json: bool) -> Result<ExitCode, Failure> {
    let turn = Turn::begin(connector, id, text)?;
    let message_id = turn.message_id;
    let is_terminal = output::is_terminal();
    let mut answer = String::new();
    let stop_reason = turn.answer(|piece| match (as_json, is_terminal) {
        (true, _) => {
            answer.push_str(piece);
            Ok(())
        }
        (false, true) => output::text(piece),
        (false, false) => output::bytes(piece.as_bytes()),
    })?;
    if as_json {
        let answer = json!({"message_id": message_id, "stop_reason": stop_reason, "text": answer.trim_end()});
        output::json(answer.to_string().as_bytes())?;
    }
    if stop_reason == "end_turn" {
        return Ok(ExitCode::SUCCESS);
    }
    let why = if stop_reason.is_empty() { "for an unknown reason" } else { &stop_reason };
    failure::print_error(&format!("the turn ended: {}.", format::sanitize_line(why).replace('_', " ")));
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_joined_and_an_empty_prompt_is_rejected() {
        let words = |words: &[&str]| text(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["fix", "the tests"]).expect("some text"), "fix the tests");
        assert!(words(&[" ", ""]).is_err());
    }
}
