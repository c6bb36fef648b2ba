//! What keys and commands do.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::command::{self, Command};
use super::editor::Edited;
use super::report::Request;
use super::row::{Row, Style};
use super::settings::{self, Setting};
use super::state::{App, Echo, Effect, Leaving, TWICE_WITHIN};

impl App {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return self.interrupt(),
                KeyCode::Char('d') if self.editor.is_empty() => return vec![Effect::Leave(Leaving::Left)],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                KeyCode::Char('z') => return vec![Effect::Suspend],
                _ => {}
            }
        }
        self.leaves_until = None;
        if self.is_read_only {
            return match key.code {
                KeyCode::Char('q') => vec![Effect::Leave(Leaving::Left)],
                _ => Vec::new(),
            };
        }
        if let Some(effects) = self.answer(key) {
            return effects;
        }
        match self.editor.key(key) {
            Edited::Nothing | Edited::Changed => Vec::new(),
            Edited::Entered(line) => self.enter(line),
        }
    }

    /// One key answers a question, unless something else is being typed.
    fn answer(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let KeyCode::Char(letter) = key.code else { return None };
        if !self.editor.is_empty() || key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return None;
        }
        let (question, answer) = self.questions.chosen(letter, self.now)?;
        self.questions.answer(&question, self.now);
        Some(vec![Effect::Ask(Request::Answer { question, answer })])
    }

    /// Cancels the turn; without one, takes back what was typed, and the second time leaves.
    fn interrupt(&mut self) -> Vec<Effect> {
        if self.is_turn_running() && !self.is_read_only {
            return self.cancel();
        }
        if !self.editor.is_empty() {
            self.editor.clear();
            return Vec::new();
        }
        if self.leaves_until.is_some() || self.is_read_only {
            return vec![Effect::Leave(Leaving::Left)];
        }
        self.leaves_until = Some(self.now + TWICE_WITHIN);
        Vec::new()
    }

    fn cancel(&mut self) -> Vec<Effect> {
        if !self.is_turn_running() {
            return self.notes(vec!["no turn is running".to_owned()]);
        }
        if self.is_cancelling {
            return self.notes(vec!["the agent has been asked to stop; Ctrl-D leaves it alone with that".to_owned()]);
        }
        self.is_cancelling = true;
        vec![Effect::Ask(Request::Cancel)]
    }

    fn enter(&mut self, line: String) -> Vec<Effect> {
        let agent = self.agent.clone();
        match command::parse(&line, &agent) {
            None => {
                self.echoes.push(Echo { text: line.clone(), message_id: None });
                vec![Effect::Ask(Request::Prompt(line))]
            }
            Some(Command::Help) => self.help(),
            Some(Command::Cancel) => self.cancel(),
            Some(Command::Exit) => vec![Effect::Leave(Leaving::Left)],
            Some(Command::Tools) => {
                let shows = !self.transcript.detail.has_tool_content;
                self.transcript.detail.has_tool_content = shows;
                let what = if shows { "tool calls are shown with their content" } else { "tool calls are folded" };
                self.notes(vec![what.to_owned()])
            }
            Some(Command::Mode(wanted)) => match settings::mode(&agent) {
                Some(mode) => self.choose(&mode, wanted, |id, _| Request::Mode(id)),
                None => match options_of(&agent, "mode") {
                    Some(mode) => self.choose(&mode, wanted, config),
                    None => self.notes(vec!["this agent has no modes".to_owned()]),
                },
            },
            Some(Command::Model(wanted)) => match options_of(&agent, "model") {
                Some(model) => self.choose(&model, wanted, config),
                None => self.notes(vec!["this agent offers no models to choose from".to_owned()]),
            },
            Some(Command::Config(wanted)) => self.configure(&settings::options(&agent), wanted),
            Some(Command::Unknown(word)) => {
                let what = format!("{word} is no command; /help lists them. To send it as text, put a word before it");
                vec![Effect::Print(self.transcript.problem(&what))]
            }
        }
    }

    fn configure(&mut self, options: &[Setting], wanted: Option<(&str, &str)>) -> Vec<Effect> {
        match wanted {
            None if options.is_empty() => self.notes(vec!["this agent has nothing to set".to_owned()]),
            None => self.notes(options.iter().map(listing).collect()),
            Some((id, value)) => match options.iter().find(|option| option.id == id) {
                Some(option) => self.choose(option, Some(value.trim()).filter(|value| !value.is_empty()), config),
                None => {
                    let what = format!("{id} is nothing that can be set; /config lists what can");
                    vec![Effect::Print(self.transcript.problem(&what))]
                }
            },
        }
    }

    /// Lists the choices, or asks for one of them.
    fn choose(&mut self, setting: &Setting, wanted: Option<&str>, ask: fn(String, &Setting) -> Request) -> Vec<Effect> {
        let Some(wanted) = wanted else { return self.notes(vec![listing(setting)]) };
        match setting.choice(wanted) {
            Some(choice) => vec![Effect::Ask(ask(choice.id.clone(), setting))],
            // What is chosen may be free text.
            None if setting.choices.is_empty() => vec![Effect::Ask(ask(wanted.to_owned(), setting))],
            None => {
                let names: Vec<&str> = setting.choices.iter().map(|choice| choice.id.as_str()).collect();
                let what = format!("there is no {} {wanted}; possible: {}", setting.id, names.join(", "));
                vec![Effect::Print(self.transcript.problem(&what))]
            }
        }
    }

    fn help(&mut self) -> Vec<Effect> {
        let row = |(keys, what): (&str, &str)| {
            Row::new(Style::Bold, &format!("  {keys:<20}")).with(Style::Dim, what).cut(self.columns)
        };
        let mut rows: Vec<Row> = command::HELP.iter().copied().map(row).collect();
        let commands = settings::commands(&self.agent);
        rows.extend(commands.iter().map(|(name, what)| row((&format!("/{name}"), what))));
        rows.insert(0, Row::default());
        vec![Effect::Print(rows)]
    }
}

fn config(value: String, setting: &Setting) -> Request {
    Request::Config { id: setting.id.clone(), value }
}

fn options_of(agent: &coven_api::acp_state::AcpStateRecord, category: &str) -> Option<Setting> {
    settings::options(agent).into_iter().find(|option| option.category == category || option.id == category)
}

fn listing(setting: &Setting) -> String {
    let mut lines = vec![format!("{}: {}", setting.id, setting.current)];
    for choice in &setting.choices {
        let mark = if choice.id == setting.current { "▸" } else { " " };
        let name = if choice.name == choice.id { String::new() } else { format!("  {}", choice.name) };
        lines.push(format!("{mark} {}{name}", choice.id));
    }
    lines.join("\n")
}
