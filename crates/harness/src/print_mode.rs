//! Print mode: a harness answers one prompt on its standard streams and exits.

mod answer;
mod format;
mod rules;
mod utf8;

use coven_domain::text::MAX_PROMPT_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{Print, Resume};
use crate::agents;
use crate::launch::strings;

pub use answer::{ANSWER, OUTPUT_LINE, PrintAnswer, Usage};
pub use format::PrintFormat;
pub use rules::{Condition, Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule, When};

/// Returns the built-in print mode of the agent with this id.
pub fn known(id: &str) -> Option<PrintMode> {
    agents::find(id)?.print.as_ref().ok().map(PrintMode::from)
}

/// Placeholder for the id of the harness's own session.
const SESSION: &str = "{session}";
/// Placeholder for the name of one of the harness's own agents.
const AGENT: &str = "{agent}";
/// Placeholder for an agent's instructions.
const INSTRUCTIONS: &str = "{instructions}";

/// How a harness runs one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrintMode {
    /// Arguments for the first turn. If they contain `{session}`, coven chooses the id of the harness's session.
    #[serde(default)]
    pub args: Vec<String>,
    /// How coven passes the prompt to the program.
    #[serde(default)]
    pub prompt: PrintPrompt,
    /// Format of the program's output.
    #[serde(default)]
    pub format: PrintFormat,
    /// Arguments, instead of `args`, for a turn that resumes the harness's own session; `{session}` is replaced by its
    /// id. If omitted, the prompt of every turn contains the conversation so far.
    #[serde(default)]
    pub resume: Option<Vec<String>>,
    /// Extra arguments that pass an agent's `{instructions}`. If omitted, coven prepends them to the first prompt.
    #[serde(default)]
    pub instructions: Option<Vec<String>>,
    /// Extra arguments for a workflow step, where no user can approve tools: they let the agent change files in its
    /// working folder.
    #[serde(default)]
    pub step_args: Vec<String>,
    /// Agents that the harness knows by name.
    #[serde(default)]
    pub own_agents: Option<OwnAgents>,
}

/// Agent definitions that the harness reads itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnAgents {
    /// Folder with the definitions, relative to the user's home folder.
    pub folder: String,
    /// Extra arguments that select `{agent}`.
    pub args: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PrintPrompt")]
pub enum PrintPrompt<S = String> {
    /// On standard input: the only style without a length limit.
    #[default]
    Stdin,
    /// As the last argument.
    Argument,
    /// As the last argument, after `--`, so that a prompt may start with a dash.
    AfterDashes,
    /// As the value of this flag.
    Flag(S),
    /// As `--flag=prompt`.
    FlagEquals(S),
}

impl From<&PrintPrompt<&str>> for PrintPrompt {
    fn from(prompt: &PrintPrompt<&str>) -> Self {
        match *prompt {
            PrintPrompt::Stdin => Self::Stdin,
            PrintPrompt::Argument => Self::Argument,
            PrintPrompt::AfterDashes => Self::AfterDashes,
            PrintPrompt::Flag(flag) => Self::Flag(flag.to_owned()),
            PrintPrompt::FlagEquals(flag) => Self::FlagEquals(flag.to_owned()),
        }
    }
}

impl From<&Print> for PrintMode {
    fn from(print: &Print) -> Self {
        let resume = match print.resume {
            Resume::Flag(flag) => strings(&[print.args, &[flag, SESSION]].concat()),
            Resume::Args(args) => strings(args),
        };
        let own_agents =
            print.own_agents.map(|(folder, args)| OwnAgents { folder: folder.to_owned(), args: strings(args) });
        Self {
            args: strings(print.args),
            prompt: PrintPrompt::from(&print.prompt),
            format: PrintFormat::Lines(print.rules),
            resume: Some(resume),
            instructions: (!print.instructions.is_empty()).then(|| strings(print.instructions)),
            step_args: strings(print.step_args),
            own_agents,
        }
    }
}

/// The properties of a turn that determine its command line.
#[derive(Debug, Clone, Copy)]
pub struct PrintTurn<'a> {
    pub prompt: &'a str,
    pub session: PrintSession<'a>,
    pub agent: Option<AgentBrief<'a>>,
    /// Whether the turn is a workflow step, which runs in its own worktree.
    pub is_step: bool,
    /// Extra arguments for the program.
    pub more_args: &'a [String],
}

#[derive(Debug, Clone, Copy)]
pub enum PrintSession<'a> {
    /// A new session, with this id if the harness lets coven choose it.
    New(&'a str),
    /// A session that the harness has stored.
    Kept(&'a str),
}

#[derive(Debug, Clone, Copy)]
pub enum AgentBrief<'a> {
    /// An agent that the harness knows by this name.
    Named(&'a str),
    /// Instructions for the agent.
    Instructions(&'a str),
}

/// Arguments of a program and its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintCall {
    pub args: Vec<String>,
    pub stdin: String,
}

/// Returns whether `id` is a valid session id of a harness. Ids come from files and programs and become arguments, so
/// none may look like a flag.
pub fn is_session_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    (1..=200).contains(&id.len()) && !id.starts_with('-') && id.chars().all(is_plain)
}

impl PrintMode {
    /// Returns whether a later turn needs only the new message.
    pub fn can_resume(&self) -> bool {
        self.resume.is_some()
    }

    /// Returns whether coven chooses the id of a new session.
    pub fn takes_session_id(&self) -> bool {
        self.args.iter().any(|arg| arg.contains(SESSION))
    }

    pub fn call(&self, turn: &PrintTurn) -> PrintCall {
        let (args, session, is_resumed) = match (turn.session, &self.resume) {
            (PrintSession::Kept(id), Some(resume)) => (resume, id, true),
            (PrintSession::Kept(id) | PrintSession::New(id), _) => (&self.args, id, false),
        };
        let mut args = filled(args, SESSION, session);
        if turn.is_step {
            args.extend(self.step_args.iter().cloned());
        }
        args.extend(turn.more_args.iter().cloned());
        let mut prompt = turn.prompt.to_owned();
        match (turn.agent, &self.own_agents, &self.instructions) {
            (Some(AgentBrief::Named(name)), Some(own), _) => args.extend(filled(&own.args, AGENT, name)),
            // The length of an argument is limited; longer instructions become part of the prompt.
            (Some(AgentBrief::Instructions(text)), _, Some(flags)) if text.len() < MAX_PROMPT_BYTES => {
                args.extend(filled(flags, INSTRUCTIONS, text));
            }
            (Some(AgentBrief::Instructions(text)), ..) if !is_resumed => prompt = format!("{text}\n\n{prompt}"),
            (Some(AgentBrief::Named(_) | AgentBrief::Instructions(_)) | None, ..) => {}
        }
        let mut stdin = String::new();
        match &self.prompt {
            PrintPrompt::Stdin => stdin = prompt,
            PrintPrompt::Argument => args.push(prompt),
            PrintPrompt::AfterDashes => args.extend(["--".to_owned(), prompt]),
            PrintPrompt::Flag(flag) => args.extend([flag.clone(), prompt]),
            PrintPrompt::FlagEquals(flag) => args.push(format!("{flag}={prompt}")),
        }
        PrintCall { args, stdin }
    }

    /// Validates the settings; the error starts with the key that is wrong.
    pub fn check(&self) -> Result<(), String> {
        let contain = |args: &[String], word: &str| args.iter().any(|arg| arg.contains(word));
        if let PrintPrompt::Flag(flag) | PrintPrompt::FlagEquals(flag) = &self.prompt
            && !flag.starts_with('-')
        {
            return Err(format!("print.prompt: {flag:?} is not a flag; it must start with '-'"));
        }
        if let Some(resume) = &self.resume {
            if !contain(resume, SESSION) {
                return Err(format!("print.resume: must contain {SESSION}, which is replaced by the session id"));
            }
            if self.format == PrintFormat::Text && !self.takes_session_id() {
                return Err(format!(
                    "print.resume: plain text contains no session id; set print.format or add {SESSION} to print.args"
                ));
            }
        }
        if self.instructions.as_ref().is_some_and(|args| !contain(args, INSTRUCTIONS)) {
            return Err(format!("print.instructions: must contain {INSTRUCTIONS}, which is replaced by their text"));
        }
        if self.own_agents.as_ref().is_some_and(|own| !contain(&own.args, AGENT)) {
            return Err(format!("print.ownAgents.args: must contain {AGENT}, which is replaced by the agent's name"));
        }
        Ok(())
    }
}

fn filled(args: &[String], word: &str, value: &str) -> Vec<String> {
    args.iter().map(|arg| arg.replace(word, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(mode: &PrintMode, session: PrintSession, agent: Option<AgentBrief>) -> (String, String) {
        let PrintCall { args, stdin } =
            mode.call(&PrintTurn { prompt: "-hello", session, agent, is_step: false, more_args: &[] });
        (args.join(" "), stdin)
    }

    #[test]
    fn first_and_resumed_turns_use_different_arguments() {
        let mode = known("codex").expect("built in");
        let (args, stdin) = call(&mode, PrintSession::New("unused"), None);
        assert_eq!((args.as_str(), stdin.as_str()), ("exec --json --skip-git-repo-check -", "-hello"));
        let (args, _) = call(&mode, PrintSession::Kept("t-1"), None);
        assert_eq!(args, "exec resume --json --skip-git-repo-check t-1 -");
    }

    #[test]
    fn a_workflow_step_adds_the_step_arguments() {
        let turn =
            PrintTurn { prompt: "x", session: PrintSession::New("s"), agent: None, is_step: true, more_args: &[] };
        for id in ["claude", "gemini", "qwen"] {
            let mode = known(id).expect("built in");
            let (step, turn) = (mode.call(&turn).args, mode.call(&PrintTurn { is_step: false, ..turn }).args);
            assert_eq!(step, [turn, mode.step_args].concat(), "{id}");
        }
    }

    #[test]
    fn a_harness_that_cannot_resume_starts_a_new_session() {
        let mode = PrintMode { args: vec!["-p".into()], ..PrintMode::default() };
        assert_eq!(call(&mode, PrintSession::Kept("t-1"), None), ("-p".into(), "-hello".into()));
    }

    #[test]
    fn an_agent_is_passed_by_name_by_flag_or_in_the_prompt() {
        let claude = known("claude").expect("built in");
        let named = call(&claude, PrintSession::New(""), Some(AgentBrief::Named("qa-test"))).0;
        assert!(named.ends_with(" --agent qa-test"), "{named}");
        let flag = call(&claude, PrintSession::Kept("s"), Some(AgentBrief::Instructions("Be brief."))).0;
        assert!(flag.ends_with(" --resume s --append-system-prompt Be brief."), "{flag}");

        let codex = known("codex").expect("built in");
        let brief = Some(AgentBrief::Instructions("Be brief."));
        assert_eq!(call(&codex, PrintSession::New(""), brief).1, "Be brief.\n\n-hello");
        // The prompt of the first turn contained the instructions.
        assert_eq!(call(&codex, PrintSession::Kept("s"), brief).1, "-hello");
    }

    #[test]
    fn instructions_too_long_for_an_argument_go_into_the_prompt() {
        let long = "x".repeat(MAX_PROMPT_BYTES);
        let claude = known("claude").expect("built in");
        let (args, stdin) = call(&claude, PrintSession::New(""), Some(AgentBrief::Instructions(&long)));
        assert!(!args.contains("--append-system-prompt") && stdin.starts_with(&long));
    }

    #[test]
    fn every_prompt_style_keeps_the_prompt_one_argument() {
        let args = |prompt| call(&PrintMode { prompt, ..PrintMode::default() }, PrintSession::New(""), None).0;
        assert_eq!(args(PrintPrompt::Argument), "-hello");
        assert_eq!(args(PrintPrompt::AfterDashes), "-- -hello");
        assert_eq!(args(PrintPrompt::Flag("-t".into())), "-t -hello");
        assert_eq!(args(PrintPrompt::FlagEquals("--text".into())), "--text=-hello");
    }

    #[test]
    fn a_session_id_is_never_a_flag() {
        for id in ["ses_e1f591", "01a1e0a6-44a1-72f3", "20261115_3", "session_6f:2"] {
            assert!(is_session_id(id), "{id}");
        }
        for id in ["", "-r", "--yolo", "a b", "a\nb", "../x", "é", &"x".repeat(201)] {
            assert!(!is_session_id(id), "{id}");
        }
    }

    #[test]
    fn built_in_print_modes_pass_their_own_check() {
        for agent in agents::ALL.iter().filter(|agent| agent.print.is_ok()) {
            let mode = known(agent.id).expect("a print mode");
            assert_eq!(mode.check(), Ok(()), "{}", agent.id);
            assert!(mode.can_resume(), "{}", agent.id);
        }
        assert_eq!(known("shell"), None);
    }

    #[test]
    fn check_reports_the_wrong_key() {
        let check = |json: &str| serde_json::from_str::<PrintMode>(json).expect("well-typed").check();
        assert_eq!(check("{}"), Ok(()));
        assert_eq!(check(r#"{"args":["-s","{session}"],"resume":["-r","{session}"]}"#), Ok(()));
        for (json, key) in [
            (r#"{"prompt":{"flag":"t"}}"#, "print.prompt:"),
            (r#"{"format":"claude-json","resume":["-r"]}"#, "print.resume:"),
            (r#"{"resume":["-r","{session}"]}"#, "print.resume:"),
            (r#"{"instructions":["-i"]}"#, "print.instructions:"),
            (r#"{"ownAgents":{"folder":".x","args":["-a"]}}"#, "print.ownAgents.args:"),
        ] {
            let problem = check(json).expect_err(json);
            assert!(problem.starts_with(key), "{problem}");
        }
    }
}
