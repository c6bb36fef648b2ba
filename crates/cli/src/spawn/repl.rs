//! The read-eval loop of a conversation.

use std::fs;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, ExitCode, Stdio};

use coven_domain::conversation::{ConversationState, Line, Turn, TurnRole, Usage};
use coven_harness::print_mode::Usage as TurnUsage;
use coven_holder::clock;
use coven_host::print_mode::{self, TurnSpec, TurnStatus};
use coven_interop::conversations::{Conversations, NewConversation, Wait};

use unicode_width::UnicodeWidthStr as _;

use super::command::{COMMANDS, Command, RetryContext};
use super::input::{Input, Typed};
use super::signal_safe_read::read_with_signals;
use super::{OpenConversation, ask, known_agent, transfer, turn};
use crate::attach::signals::Signals;
use crate::failure::{self, Failure};
use crate::table::cut;
use crate::{format, output};

const HISTORY_FILE: &str = "history.txt";
const PREVIEW: usize = 100;
const SHOWN_TURNS: usize = 10;

/// What to do after a command or turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplAction {
    Continue,
    Leave(ConversationState),
}

pub fn run(mut open: OpenConversation, is_resumed: bool) -> Result<ExitCode, Failure> {
    greet(&open, is_resumed);
    let history = open.conversations.path().parent().map(|folder| folder.join(HISTORY_FILE)).unwrap_or_default();
    let mut failed: Option<String> = None;
    // Listen all the time, so that no signal between two steps is lost.
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut is_warned = false;
    let saved = loop {
        let mut input = Input::new(&prompt_name(&open), history.clone());
        let next = loop {
            let line = match read_with_signals(&mut open.writer, &mut signals, || input.next())? {
                Typed::Line(line) if line.trim().is_empty() => continue,
                Typed::Line(line) => line,
                Typed::Nothing => continue,
                Typed::End => break ReplAction::Leave(ConversationState::Completed),
            };
            match Command::parse(&line) {
                Some(Command::Retry(context)) => match failed.take() {
                    Some(message) => {
                        let next = run_turn(&mut open, &mut signals, &message, context, &mut failed)?;
                        if next != ReplAction::Continue {
                            break next;
                        }
                    }
                    None => failure::print_error("no failed message to retry"),
                },
                Some(Command::Agent(Some(agent))) => {
                    if change_agent(&mut open, &agent)? {
                        failed = None;
                        // The prompt shows the new agent's name.
                        break ReplAction::Continue;
                    }
                }
                Some(command) => {
                    let next = run_command(&mut open, command)?;
                    if next != ReplAction::Continue {
                        break next;
                    }
                }
                None => {
                    let next = run_turn(&mut open, &mut signals, &line, RetryContext::NewMessageOnly, &mut failed)?;
                    if next != ReplAction::Continue {
                        break next;
                    }
                }
            }
        };
        if let ReplAction::Leave(state) = next {
            // Repeat the title at the end, where lists look for it.
            let title = open.loaded.transcript.title.clone();
            let mut last: Vec<Line> =
                title.map(|title| Line::Rename { title, timestamp: clock::now() }).into_iter().collect();
            last.push(Line::Status { status: state, timestamp: clock::now() });
            let saved = append(&mut open, last);
            if saved.is_ok() || is_warned || !output::is_terminal() {
                break saved;
            }
            is_warned = true;
            report_unsaved(saved);
            output::note(format_args!("Not saved. Save a copy with /save FILE, or leave again to discard it"));
        }
    };
    if saved.is_err() {
        output::note(format_args!("the conversation was not saved completely"));
    }
    saved?;
    output::note(format_args!("saved in {}", open.conversations.file(open.writer.id()).display()));
    output::note(format_args!("resume it with `coven spawn --resume {}`", open.writer.id()));
    Ok(ExitCode::SUCCESS)
}

/// Runs one turn and ends the conversation.
pub fn run_task(mut open: OpenConversation, task: &str) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut failed = None;
    let state = match run_turn(&mut open, &mut signals, task, RetryContext::NewMessageOnly, &mut failed)? {
        ReplAction::Continue => ConversationState::Completed,
        ReplAction::Leave(state) => state,
    };
    append(&mut open, vec![Line::Status { status: state, timestamp: clock::now() }])?;
    output::note(format_args!("resume it with `coven spawn --resume {}`", open.writer.id()));
    Ok(if failed.is_none() && state == ConversationState::Completed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn prompt_name(open: &OpenConversation) -> String {
    open.agent.as_ref().map_or_else(|| "spawn".to_owned(), |agent| agent.id.clone())
}

fn greet(open: &OpenConversation, is_resumed: bool) {
    let agent = open.agent.as_ref().map_or("no agent", |agent| agent.id.as_str());
    output::note(format_args!("Aurora Spawn Interactive Mode: {agent} on {}", open.harness.label));
    let turns = open.loaded.transcript.turns.len();
    match is_resumed {
        true => output::note(format_args!("Resumed session {} with {turns} turns", open.writer.id())),
        false => output::note(format_args!("Session {}", open.writer.id())),
    }
    output::note(format_args!("Type /help for commands, /exit to quit"));
}

/// Adds lines to the conversation in memory and saves them. Lines that cannot be saved are retried with the next save.
fn append(open: &mut OpenConversation, lines: Vec<Line>) -> Result<(), Failure> {
    lines.iter().for_each(|line| open.loaded.transcript.apply(line.clone()));
    open.context.grow_to(open.loaded.transcript.turns.len());
    open.unsaved.extend(lines);
    for notice in open.writer.append(&mut open.unsaved)? {
        output::note(format_args!("{notice}"));
    }
    open.unsaved.clear();
    open.seen_len = open.file_len();
    Ok(())
}

/// Like `append`, but prints a failure and continues. Returns whether the lines were saved.
fn save(open: &mut OpenConversation, lines: Vec<Line>) -> bool {
    let saved = append(open, lines);
    let is_saved = saved.is_ok();
    report_unsaved(saved);
    is_saved
}

fn report_unsaved(saved: Result<(), Failure>) {
    if let Err(failure) = saved {
        failure::print_error(&failure.sentence());
        output::note(format_args!("the turn is kept in memory; the next turn retries to save it"));
    }
}

/// Loads turns that other processes added to the conversation.
fn load_external_turns(open: &mut OpenConversation) {
    let len = open.file_len();
    if len == open.seen_len || !open.unsaved.is_empty() {
        return;
    }
    // If the file cannot be read, the next save reports it.
    if let Ok(loaded) = open.conversations.load(open.writer.id()) {
        let added = loaded.transcript.turns.len().saturating_sub(open.loaded.transcript.turns.len());
        if added > 0 {
            output::note(format_args!("loaded {added} turns of another process"));
        }
        open.context = loaded.transcript.context();
        open.loaded = loaded;
        open.seen_len = len;
    }
}

fn run_turn(
    open: &mut OpenConversation,
    signals: &mut Signals,
    message: &str,
    context: RetryContext,
    failed: &mut Option<String>,
) -> Result<ReplAction, Failure> {
    load_external_turns(open);
    let transcript = &open.loaded.transcript;
    let is_its_own = transcript.metadata.harness.as_deref() == Some(open.harness.id.as_str());
    let can_resume = is_its_own && open.harness.can_resume() && context == RetryContext::NewMessageOnly;
    let session = transcript.harness_session().filter(|_| can_resume).map(str::to_owned);
    let mut context = open.context.clone();
    // A harness that resumes its own session already has the earlier turns.
    let fitted = match session {
        Some(_) => None,
        None => Some(context.fit(&transcript.turns, message, open.settings.max_tokens)),
    };
    let prompt = fitted.as_ref().map_or(message, |fitted| &fitted.prompt);
    let spec = TurnSpec {
        harness: &open.harness,
        prompt,
        session: session.as_deref(),
        used_before: Some(used(transcript.turns_since_clear())),
        agent: open.agent.as_ref(),
        more_args: &open.more_args,
        cwd: &open.cwd,
        timeout: open.timeout,
    };
    let asked_at = clock::now();
    let ran = turn::run(&spec, signals)?;
    let done = match ran.done {
        Ok(done) => done,
        Err(error) => {
            failure::print_error(&failure_text(&error));
            output::note(format_args!("the message was not added; send it again with /retry"));
            if session.is_some() {
                let label = &open.harness.label;
                output::note(format_args!("if {label} lost its session, send all turns with /retry all"));
            }
            *failed = Some(message.to_owned());
            return Ok(if ran.must_exit {
                ReplAction::Leave(ConversationState::Interrupted)
            } else {
                ReplAction::Continue
            });
        }
    };
    let is_cut = done.status == TurnStatus::Interrupted;
    *failed = None;
    if done.text.trim().is_empty() {
        let what = if is_cut { "Interrupted before the first output" } else { "the tool exited without an answer" };
        output::note(format_args!("{what}; the message was not added; send it again with /retry"));
        *failed = Some(message.to_owned());
        return Ok(if ran.must_exit {
            ReplAction::Leave(ConversationState::Interrupted)
        } else {
            ReplAction::Continue
        });
    }
    if fitted.as_ref().is_some_and(|fitted| fitted.is_cut) {
        output::note(format_args!("the context is too small: the middle of a long turn or message was omitted"));
    }
    let mut lines = Vec::new();
    open.context = context;
    if let Some(trim) = fitted.and_then(|fitted| fitted.trimmed) {
        output::note(format_args!("{trim}"));
        lines.push(Line::Trim { trim, timestamp: asked_at });
    }
    let question = Turn::new(TurnRole::User, message, asked_at);
    let mut answer = Turn::new(TurnRole::Assistant, done.text, clock::now());
    answer.interrupted = is_cut;
    // The file has one harness; a session id of another harness would be useless.
    answer.harness_session = done.harness_session.filter(|_| is_its_own);
    if let Some(usage) = done.usage {
        answer.tokens = Some(usage.output);
        answer.usage = Some(Usage { input: usage.input, output: usage.output });
    }
    lines.extend([Line::Turn(question), Line::Turn(answer)]);
    save(open, lines);
    if is_cut && !ran.must_exit {
        output::note(format_args!("Interrupted. Returning to prompt."));
    }
    if let Some(warning) = open.context.warning(&open.loaded.transcript.turns, open.settings.max_tokens) {
        output::note(format_args!("{warning}"));
    }
    Ok(if ran.must_exit { ReplAction::Leave(ConversationState::Interrupted) } else { ReplAction::Continue })
}

fn failure_text(error: &print_mode::TurnError) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text.push_str(&format!(": {cause}"));
    }
    format::sanitize_line(&text)
}

/// Sums the token usage so far.
fn used(turns: &[Turn]) -> TurnUsage {
    let mut sum = TurnUsage::default();
    for usage in turns.iter().filter_map(|turn| turn.usage) {
        sum.input = sum.input.saturating_add(usage.input);
        sum.output = sum.output.saturating_add(usage.output);
    }
    sum
}

fn run_command(open: &mut OpenConversation, command: Command) -> Result<ReplAction, Failure> {
    match command {
        Command::Exit => return Ok(ReplAction::Leave(ConversationState::Completed)),
        Command::Help => help()?,
        Command::Save(None) => failure::print_error("Usage: /save FILE"),
        Command::Save(Some(file)) => {
            let text = transfer::markdown(open.writer.id(), &open.loaded.transcript);
            write_file(&file, &text, "Saved to")?;
        }
        Command::History(count) => history(open, count.unwrap_or(SHOWN_TURNS))?,
        Command::Show => {
            let last = open.loaded.transcript.turns.iter().rev().find(|turn| turn.role == TurnRole::Assistant);
            match last {
                Some(turn) => page(&format::readable(&turn.content))?,
                None => failure::print_error("no answer yet"),
            }
        }
        Command::Clear => {
            save(open, vec![Line::Clear { timestamp: clock::now() }]);
            open.context = open.loaded.transcript.context();
            output::note(format_args!("earlier turns have left the context; the file still has them"));
        }
        Command::Stats => stats(open)?,
        Command::Export(None) => failure::print_error("Usage: /export FILE"),
        Command::Export(Some(file)) => {
            let transcript = &open.loaded.transcript;
            let turns: Vec<&Turn> = open.context.turns(&transcript.turns).collect();
            let text = transfer::json(open.writer.id(), transcript, &turns, clock::now());
            write_file(&file, &text, "Exported to")?;
        }
        Command::Import(None) => failure::print_error("Usage: /import FILE"),
        Command::Import(Some(file)) => match transfer::read(Path::new(&file), clock::now()) {
            Ok(turns) => {
                let count = turns.len();
                save(open, turns.into_iter().map(Line::Turn).collect());
                output::note(format_args!("{count} turns imported"));
            }
            Err(problem) => failure::print_error(&format::sanitize_line(&problem)),
        },
        Command::Agent(_) => failure::print_error("Usage: /agent NAME"),
        Command::Rename(None) => failure::print_error("Usage: /rename TITLE"),
        Command::Rename(Some(title)) => {
            save(open, vec![Line::Rename { title: title.clone(), timestamp: clock::now() }]);
            output::note(format_args!("renamed to {}", format::sanitize_line(&title)));
        }
        Command::Retry(_) => {}
        Command::Bad(problem) => failure::print_error(&problem),
        Command::Unknown(word) => {
            failure::print_error(&format!("Unknown command: {}", format::sanitize_line(&word)));
            output::note(format_args!("Type /help for available commands"));
        }
    }
    Ok(ReplAction::Continue)
}

fn help() -> Result<(), Failure> {
    for (usage, what, example) in COMMANDS {
        output::line(format_args!("  {usage:<15} {what:<46} {example}"))?;
    }
    output::line(format_args!("  End a line with a backslash to continue it. Ctrl-C interrupts a turn, Ctrl-D leaves."))
}

fn history(open: &OpenConversation, count: usize) -> Result<(), Failure> {
    let turns = &open.loaded.transcript.turns;
    let mut text = String::new();
    for (index, turn) in turns.iter().enumerate().skip(turns.len().saturating_sub(count)) {
        let preview = cut(&format::sanitize_line(&turn.content), PREVIEW);
        let cut_off = if turn.interrupted { " (interrupted)" } else { "" };
        text.push_str(&format!("{:>4}  {:<9}  {}  {preview}{cut_off}\n", index + 1, turn.role, turn.timestamp));
    }
    match text.is_empty() {
        true => output::line(format_args!("no turns yet")),
        false => page(&text),
    }
}

fn stats(open: &OpenConversation) -> Result<(), Failure> {
    let transcript = &open.loaded.transcript;
    let tokens = open.context.tokens(&transcript.turns);
    let of_role = |role| {
        transcript
            .turns
            .iter()
            .filter(|turn| turn.role == role)
            .map(Turn::tokens_or_estimate)
            .fold(0, u64::saturating_add)
    };
    let max = open.settings.max_tokens.max(1);
    let rows = [
        ("session", open.writer.id().to_string()),
        ("agent", transcript.metadata.agent.clone().unwrap_or_else(|| "none".to_owned())),
        ("tool", open.harness.label.clone()),
        ("turns", transcript.turns.len().to_string()),
        ("tokens, user", of_role(TurnRole::User).to_string()),
        ("tokens, assistant", of_role(TurnRole::Assistant).to_string()),
        ("context", format!("{tokens} of {max} tokens ({} %)", tokens.saturating_mul(100) / max)),
    ];
    for (what, value) in rows {
        output::line(format_args!("  {what:<18} {value}"))?;
    }
    Ok(())
}

/// Writes a file; replaces an existing one only after confirmation.
fn write_file(file: &str, text: &str, done: &str) -> Result<(), Failure> {
    let path = match (file.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(file),
    };
    if path.exists() {
        let shown = format::sanitize_line(&path.display().to_string());
        let may = std::io::stdin().is_terminal() && ask(&format!("Replace {shown}? [y/N] "))?.starts_with('y');
        if !may {
            failure::print_error(&format!("nothing was written: {shown} exists; choose another name"));
            return Ok(());
        }
    }
    match fs::write(&path, text) {
        Ok(()) => output::line(format_args!("{done} {}", path.display())),
        Err(error) => {
            failure::print_error(&format!("cannot write {}: {error}", path.display()));
            Ok(())
        }
    }
}

/// Starts a new conversation with another agent. Returns false if the agent does not exist.
fn change_agent(open: &mut OpenConversation, name: &str) -> Result<bool, Failure> {
    let agent = match known_agent(name, &open.settings) {
        Ok(agent) => agent,
        Err(unknown) => {
            failure::print_error(&unknown.sentence());
            return Ok(false);
        }
    };
    if !save(open, vec![Line::Status { status: ConversationState::Completed, timestamp: clock::now() }]) {
        return Ok(false);
    }
    let new = NewConversation {
        id: None,
        agent: Some(agent.id.clone()),
        harness: Some(open.harness.id.clone()),
        cwd: Some(open.cwd.clone()),
    };
    let conversations: &Conversations = &open.conversations;
    let id = conversations.create(&new, clock::now())?;
    let waiting = || output::note(format_args!("waiting for another process that is writing to the conversation …"));
    open.writer = conversations.writer(&id, Wait::ForLock(Box::new(waiting)))?;
    open.loaded = conversations.load(&id)?;
    open.context = open.loaded.transcript.context();
    open.seen_len = open.file_len();
    open.agent = Some(agent);
    greet(open, false);
    Ok(true)
}

/// Prints text; uses a pager if it is longer than the screen.
fn page(text: &str) -> Result<(), Failure> {
    let size = output::terminal_size().filter(|_| output::is_terminal());
    let fits = |(rows, cols): (u16, u16)| {
        let rows_of = |line: &str| line.width().div_ceil(usize::from(cols).max(1)).max(1);
        text.lines().map(rows_of).sum::<usize>() < usize::from(rows)
    };
    if size.is_none_or(fits) {
        return output::bytes(format!("{}\n", text.trim_end()).as_bytes());
    }
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.is_empty()).unwrap_or_else(|| "less".to_owned());
    let mut words = pager.split_whitespace();
    let program = words.next().unwrap_or("less");
    let shown = Process::new(program).args(words).stdin(Stdio::piped()).spawn().and_then(|mut child| {
        if let Some(mut stdin) = child.stdin.take() {
            // The user may quit the pager early.
            let _ = stdin.write_all(text.as_bytes());
        }
        child.wait()
    });
    match shown {
        Ok(_) => Ok(()),
        Err(_) => output::bytes(text.as_bytes()),
    }
}
