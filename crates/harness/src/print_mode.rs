//! Print mode: how a harness answers one prompt on its standard streams and ends.

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

pub use answer::{ANSWER, Answer, OUTPUT_LINE, Usage};
pub use format::PrintFormat;
pub use rules::{Condition, Counting, Kind, Place, Rules, TextRule, TroubleRule, UsageRule, When};

/// How the agent of this id prints, wherever its program lies.
pub fn known(id: &str) -> Option<PrintMode> {
    agents::find(id)?.print.as_ref().ok().map(PrintMode::from)
}

/// Stands for the id of the harness's own session.
const SESSION: &str = "{session}";
/// Stands for the name of one of the harness's own agents.
const AGENT: &str = "{agent}";
/// Stands for what an agent is told.
const INSTRUCTIONS: &str = "{instructions}";

/// How a harness runs one turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrintMode {
    /// Arguments of a first turn. Where they hold `{session}`, coven chooses the id of the harness's session.
    #[serde(default)]
    pub args: Vec<String>,
    /// How the prompt reaches the program.
    #[serde(default)]
    pub prompt: PrintPrompt,
    /// What the program writes.
    #[serde(default)]
    pub format: PrintFormat,
    /// Arguments, in place of `args`, of a turn that goes on with the harness's own session: `{session}` stands for its
    /// id. Left out: every turn gets the conversation so far as its prompt.
    #[serde(default)]
    pub resume: Option<Vec<String>>,
    /// Further arguments that tell it an agent's `{instructions}`. Left out: they stand in front of the first prompt.
    #[serde(default)]
    pub instructions: Option<Vec<String>>,
    /// Further arguments of a step of a workflow, where nobody is there to be asked: they let it change files where it works.
    #[serde(default)]
    pub step_args: Vec<String>,
    /// Agents that it knows by name.
    #[serde(default)]
    pub own_agents: Option<OwnAgents>,
}

/// Agents that a harness finds by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnAgents {
    /// Where their definitions lie, below the user's home folder.
    pub folder: String,
    /// Further arguments that choose `{agent}`.
    pub args: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PrintPrompt")]
pub enum PrintPrompt<S = String> {
    /// On standard input: the only way that has room for a long conversation.
    #[default]
    Stdin,
    /// As the last argument.
    Argument,
    /// As the last argument behind `--`, so that a prompt may begin with a dash.
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

/// One turn, as far as a command line is concerned.
#[derive(Debug, Clone, Copy)]
pub struct PrintTurn<'a> {
    pub prompt: &'a str,
    pub session: PrintSession<'a>,
    pub agent: Option<AgentBrief<'a>>,
    /// A step of a workflow, in a worktree of its own.
    pub is_step: bool,
    /// Further arguments for the program.
    pub more_args: &'a [String],
}

#[derive(Debug, Clone, Copy)]
pub enum PrintSession<'a> {
    /// A session that begins, under this id if the harness lets us choose one.
    New(&'a str),
    /// One that the harness has.
    Kept(&'a str),
}

#[derive(Debug, Clone, Copy)]
pub enum AgentBrief<'a> {
    /// An agent that the harness knows by this name.
    Named(&'a str),
    /// What the agent is told.
    Instructions(&'a str),
}

/// What to start and what to write to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrintCall {
    pub args: Vec<String>,
    pub stdin: String,
}

/// Whether this can be the id of a harness's session. It comes from files and from programs, and becomes an argument: it
/// must not be taken for a flag.
pub fn is_session_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    (1..=200).contains(&id.len()) && !id.starts_with('-') && id.chars().all(is_plain)
}

impl PrintMode {
    /// Whether a later turn needs only the new message.
    pub fn can_resume(&self) -> bool {
        self.resume.is_some()
    }

    /// Whether the id of a new session is ours to choose.
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
            // An argument has an end; a prompt on standard input has none.
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

    /// What makes no sense, in words, behind the key it belongs to.
    pub fn check(&self) -> Result<(), String> {
        let holds = |args: &[String], word: &str| args.iter().any(|arg| arg.contains(word));
        if let PrintPrompt::Flag(flag) | PrintPrompt::FlagEquals(flag) = &self.prompt
            && !flag.starts_with('-')
        {
            return Err(format!("print.prompt: {flag:?} is not a flag"));
        }
        if let Some(resume) = &self.resume {
            if !holds(resume, SESSION) {
                return Err(format!("print.resume: say with {SESSION} where the id of the session goes"));
            }
            if self.format == PrintFormat::Text && !self.takes_session_id() {
                return Err(format!(
                    "print.resume: plain text tells no id of a session; choose a format, or one with {SESSION} in args"
                ));
            }
        }
        if self.instructions.as_ref().is_some_and(|args| !holds(args, INSTRUCTIONS)) {
            return Err(format!("print.instructions: say with {INSTRUCTIONS} where they go"));
        }
        if self.own_agents.as_ref().is_some_and(|own| !holds(&own.args, AGENT)) {
            return Err(format!("print.ownAgents.args: say with {AGENT} where the name goes"));
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
    fn a_first_turn_and_a_resumed_one_have_arguments_of_their_own() {
        let mode = known("codex").expect("built in");
        let (args, stdin) = call(&mode, PrintSession::New("unused"), None);
        assert_eq!((args.as_str(), stdin.as_str()), ("exec --json --skip-git-repo-check -", "-hello"));
        let (args, _) = call(&mode, PrintSession::Kept("t-1"), None);
        assert_eq!(args, "exec resume --json --skip-git-repo-check t-1 -");
    }

    #[test]
    fn a_step_may_change_files_where_a_conversation_would_ask() {
        let turn =
            PrintTurn { prompt: "x", session: PrintSession::New("s"), agent: None, is_step: true, more_args: &[] };
        for id in ["claude", "gemini", "qwen"] {
            let mode = known(id).expect("built in");
            let (step, turn) = (mode.call(&turn).args, mode.call(&PrintTurn { is_step: false, ..turn }).args);
            assert_eq!(step, [turn, mode.step_args].concat(), "{id}");
        }
    }

    #[test]
    fn a_harness_that_cannot_resume_starts_anew() {
        let mode = PrintMode { args: vec!["-p".into()], ..PrintMode::default() };
        assert_eq!(call(&mode, PrintSession::Kept("t-1"), None), ("-p".into(), "-hello".into()));
    }

    #[test]
    fn an_agent_goes_the_way_the_harness_has_for_it() {
        let claude = known("claude").expect("built in");
        let named = call(&claude, PrintSession::New(""), Some(AgentBrief::Named("qa-test"))).0;
        assert!(named.ends_with(" --agent qa-test"), "{named}");
        let told = call(&claude, PrintSession::Kept("s"), Some(AgentBrief::Instructions("Be brief."))).0;
        assert!(told.ends_with(" --resume s --append-system-prompt Be brief."), "{told}");

        let codex = known("codex").expect("built in");
        let brief = Some(AgentBrief::Instructions("Be brief."));
        assert_eq!(call(&codex, PrintSession::New(""), brief).1, "Be brief.\n\n-hello");
        // It has been told in the first turn.
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
    fn what_is_built_in_makes_sense() {
        for agent in agents::ALL.iter().filter(|agent| agent.print.is_ok()) {
            let mode = known(agent.id).expect("it prints");
            assert_eq!(mode.check(), Ok(()), "{}", agent.id);
            assert!(mode.can_resume(), "{}", agent.id);
        }
        assert_eq!(known("shell"), None);
    }

    #[test]
    fn mistakes_are_told_by_key() {
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
