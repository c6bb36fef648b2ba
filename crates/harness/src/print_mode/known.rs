//! The print modes that were found out by running the programs: see `docs/harnesses.md`.

use super::{OwnAgents, PrintFormat, PrintMode, PrintPrompt};

/// Every id that has one. Not all of them are harnesses of their own: those that are not run turns all the same, by the
/// program of that name.
pub const KNOWN: &[&str] = &["claude", "codex", "gemini", "opencode", "copilot", "goose", "kimi", "qwen", "pi", "vibe"];

/// How the harness of this id prints, wherever its program lies.
pub fn known(id: &str) -> Option<PrintMode> {
    let mode = match id {
        "claude" => PrintMode {
            // Beside whatever its settings allow: files below the folder it works in.
            step_args: strings(&["--allowedTools=Edit(./**)"]),
            instructions: words(&["--append-system-prompt", "{instructions}"]),
            own_agents: Some(OwnAgents { folder: ".claude/agents".to_owned(), args: strings(&["--agent", "{agent}"]) }),
            ..resumed_by_flag(
                PrintFormat::ClaudeJson,
                &["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"],
                "--resume",
            )
        },
        // The dash makes it read the prompt from standard input.
        "codex" => PrintMode {
            args: strings(&["exec", "--json", "--skip-git-repo-check", "-"]),
            resume: words(&["exec", "resume", "--json", "--skip-git-repo-check", "{session}", "-"]),
            format: PrintFormat::CodexJson,
            ..PrintMode::default()
        },
        // Without it there is no tool that writes.
        "gemini" => PrintMode {
            step_args: strings(&["--allowed-tools=write_file,replace"]),
            ..resumed_by_flag(PrintFormat::GeminiJson, &["--output-format", "stream-json"], "--resume")
        },
        // It takes an agent by name too, but not one that is only there for others to call: it then goes on without.
        "opencode" => resumed_by_flag(PrintFormat::OpencodeJson, &["run", "--format", "json"], "--session"),
        "copilot" => PrintMode {
            args: strings(&["--output-format", "json", "--session-id={session}"]),
            resume: words(&["--output-format", "json", "--resume={session}"]),
            format: PrintFormat::CopilotJson,
            ..PrintMode::default()
        },
        "goose" => PrintMode {
            args: strings(&["run", "--quiet", "--output-format", "stream-json", "-n", "{session}", "-i", "-"]),
            resume: words(&["run", "--quiet", "--output-format", "stream-json", "-r", "-n", "{session}", "-i", "-"]),
            format: PrintFormat::GooseJson,
            instructions: words(&["--system", "{instructions}"]),
            ..PrintMode::default()
        },
        "kimi" => PrintMode {
            prompt: PrintPrompt::FlagEquals("--prompt".to_owned()),
            ..resumed_by_flag(PrintFormat::KimiJson, &["--output-format", "stream-json"], "--session")
        },
        "qwen" => PrintMode {
            step_args: strings(&["--allowed-tools=write_file,edit"]),
            instructions: words(&["--append-system-prompt", "{instructions}"]),
            ..resumed_by_flag(
                PrintFormat::QwenJson,
                &["--output-format", "stream-json", "--include-partial-messages"],
                "--resume",
            )
        },
        "pi" => PrintMode {
            instructions: words(&["--append-system-prompt", "{instructions}"]),
            args: strings(&["-p", "--mode", "json", "--session-id", "{session}"]),
            resume: words(&["-p", "--mode", "json", "--session", "{session}"]),
            format: PrintFormat::PiJson,
            ..PrintMode::default()
        },
        "vibe" => resumed_by_flag(PrintFormat::VibeJson, &["--trust", "--output", "streaming", "-p"], "--resume"),
        _ => return None,
    };
    Some(mode)
}

/// The same arguments for every turn, and `flag ID` to go on.
fn resumed_by_flag(format: PrintFormat, args: &[&str], flag: &str) -> PrintMode {
    let args = strings(args);
    let mut resume = args.clone();
    resume.extend(strings(&[flag, "{session}"]));
    PrintMode { args, format, resume: Some(resume), ..PrintMode::default() }
}

fn words(words: &[&str]) -> Option<Vec<String>> {
    Some(strings(words))
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
