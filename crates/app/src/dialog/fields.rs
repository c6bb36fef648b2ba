//! The forms that launch an agent and make a task.

use coven_api::harness::HarnessRecord;
use coven_api::session::CreateSessionRequest;
use coven_api::task::CreateTaskRequest;
use coven_domain::session::Channel;
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::DialogResult;
use crate::feed::{Answer, Call, TaskAction};
use crate::frame::canvas::{self, CursorPlace};
use crate::frame::editor::{Edited, Editor};
use crate::frame::text;
use crate::frame::theme::Theme;
use crate::setup::LaunchContext;

const LABEL_COLS: u16 = 12;
const MAX_PROMPT_ROWS: u16 = 6;

enum Value {
    Text(Editor),
    /// One of several: the shown name, and the value.
    Choice {
        options: Vec<(String, String)>,
        selected: usize,
    },
}

struct Field {
    label: &'static str,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Launch,
    Task,
}

pub struct Fields {
    form: Form,
    launch: LaunchContext,
    /// The size of the pane that will show the session.
    size: Option<(u16, u16)>,
    fields: Vec<Field>,
    at: usize,
    is_sent: bool,
    problem: Option<String>,
}

fn line(label: &'static str, content: &str) -> Field {
    Field { label, value: Value::Text(Editor::one_line(content)) }
}

fn lines(label: &'static str) -> Field {
    Field { label, value: Value::Text(Editor::multiline("")) }
}

fn choice(label: &'static str, options: &[(&str, &str)]) -> Field {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Field { label, value: Value::Choice { options, selected: 0 } }
}

impl Fields {
    /// The form that launches an agent.
    pub fn launch(launch: LaunchContext, size: Option<(u16, u16)>) -> Self {
        let fields = vec![
            choice("agent", &[("reading the list…", "")]),
            lines("prompt"),
            line("folder", &launch.cwd),
            line("title", ""),
            choice("channel", &[("terminal", "terminal"), ("ACP", "acp")]),
            choice("worktree", &[("no, work in the folder", ""), ("yes, as a task with a branch of its own", "yes")]),
            choice("background", &[("no, show it", ""), ("yes", "yes")]),
        ];
        Self { form: Form::Launch, launch, size, fields, at: 0, is_sent: false, problem: None }
    }

    /// The form that makes a task.
    pub fn task(launch: LaunchContext) -> Self {
        let fields = vec![
            line("title", ""),
            lines("prompt"),
            choice("agent", &[("the default", "")]),
            line("folder", &launch.cwd),
            choice("start", &[("later", ""), ("now", "yes")]),
        ];
        Self { form: Form::Task, launch, size: None, fields, at: 0, is_sent: false, problem: None }
    }

    fn field(&self, label: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.label == label)
    }

    fn value(&self, label: &str) -> &str {
        match self.field(label).map(|field| &field.value) {
            Some(Value::Text(editor)) => editor.text().trim(),
            Some(Value::Choice { options, selected }) => options.get(*selected).map_or("", |(_, value)| value),
            None => "",
        }
    }

    fn given(&self, label: &str) -> Option<String> {
        Some(self.value(label).to_owned()).filter(|value| !value.is_empty())
    }

    /// The launched session or started task is not shown.
    pub fn is_background(&self) -> bool {
        !self.value("background").is_empty()
    }

    /// The task that is made is started too.
    pub fn starts_task(&self) -> bool {
        !self.value("start").is_empty() || !self.value("worktree").is_empty()
    }

    pub fn paste(&mut self, pasted: &str) {
        if let Some(Field { value: Value::Text(editor), .. }) = self.fields.get_mut(self.at) {
            editor.insert(pasted);
        }
    }

    /// Fills the list of agents, and takes the refusal of what was sent.
    pub fn answered(&mut self, call: &Call, result: &Result<Answer, String>) {
        match (call, result) {
            (Call::Harnesses { .. }, Ok(Answer::Harnesses(known))) => self.set_agents(known),
            (Call::Harnesses { .. }, Err(why)) => self.problem = Some(why.clone()),
            (Call::Launch(_) | Call::NewTask(_), Err(why)) if self.is_sent => {
                self.is_sent = false;
                self.problem = Some(why.clone());
            }
            _ => {}
        }
    }

    /// Lists the installed agents first.
    fn set_agents(&mut self, known: &[HarnessRecord]) {
        let mut sorted: Vec<&HarnessRecord> = known.iter().collect();
        sorted.sort_by_key(|it| !it.is_installed);
        let name = |it: &HarnessRecord| match it.is_installed {
            true => it.id.clone(),
            false => format!("{} (not installed)", it.id),
        };
        let mut all: Vec<(String, String)> = sorted.into_iter().map(|it| (name(it), it.id.clone())).collect();
        if self.form == Form::Task {
            all.insert(0, ("the default".to_owned(), String::new()));
        }
        if let Some(Field { value: Value::Choice { options, selected }, .. }) =
            self.fields.iter_mut().find(|field| field.label == "agent")
        {
            *options = all;
            *selected = 0;
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> DialogResult {
        if self.is_sent {
            return DialogResult::Stay;
        }
        let last = self.fields.len() - 1;
        let field = &mut self.fields[self.at];
        if let Value::Text(editor) = &mut field.value {
            match editor.key(key) {
                Edited::Changed => return DialogResult::Stay,
                Edited::Entered => return self.send(),
                Edited::Ignored => {}
            }
        }
        let step = match key.code {
            KeyCode::Enter => return self.send(),
            KeyCode::Tab | KeyCode::Down => {
                self.at = if self.at == last { 0 } else { self.at + 1 };
                return DialogResult::Stay;
            }
            KeyCode::BackTab | KeyCode::Up => {
                self.at = if self.at == 0 { last } else { self.at - 1 };
                return DialogResult::Stay;
            }
            KeyCode::Right | KeyCode::Char(' ' | 'l') => 1,
            KeyCode::Left | KeyCode::Char('h') => -1,
            // A letter jumps to the next option that starts with it.
            KeyCode::Char(c) => {
                if let Value::Choice { options, selected } = &mut field.value {
                    let count = options.len();
                    let order = (1..=count).map(|nth| (*selected + nth) % count.max(1));
                    let found = order.into_iter().find(|nth| options[*nth].0.starts_with(c));
                    *selected = found.unwrap_or(*selected);
                }
                return DialogResult::Stay;
            }
            _ => return DialogResult::Stay,
        };
        if let Value::Choice { options, selected } = &mut field.value {
            let count = options.len() as isize;
            *selected = (*selected as isize + step).rem_euclid(count.max(1)) as usize;
        }
        DialogResult::Stay
    }

    fn send(&mut self) -> DialogResult {
        self.problem = None;
        let (missing, label) = match self.form {
            Form::Launch if self.value("agent").is_empty() => ("choose an agent", "agent"),
            Form::Launch if !self.value("worktree").is_empty() && self.value("prompt").is_empty() => {
                ("a task needs a prompt", "prompt")
            }
            Form::Task if self.value("title").is_empty() => ("a task needs a title", "title"),
            _ => {
                self.is_sent = true;
                return DialogResult::Call(Box::new(self.call()));
            }
        };
        self.at = self.fields.iter().position(|field| field.label == label).unwrap_or(0);
        DialogResult::Refused(missing.to_owned())
    }

    fn call(&self) -> Call {
        if self.form == Form::Task || !self.value("worktree").is_empty() {
            let prompt = self.value("prompt");
            let first_line = || text::fit(prompt.lines().next().unwrap_or_default(), 72).into_owned();
            return Call::NewTask(Box::new(CreateTaskRequest {
                title: self.given("title").unwrap_or_else(first_line),
                body: self.given("prompt"),
                harness: self.given("agent"),
                repo: self.given("folder").map(|folder| self.launch.path(&folder)),
                ..CreateTaskRequest::default()
            }));
        }
        let (rows, cols) = self.size.unzip();
        Call::Launch(Box::new(CreateSessionRequest {
            harness: self.given("agent"),
            prompt: self.given("prompt"),
            cwd: self.given("folder").map(|folder| self.launch.path(&folder)),
            project_root: self.launch.project_root.clone().filter(|_| self.value("folder") == self.launch.cwd),
            title: self.given("title"),
            channel: self.given("channel").filter(|channel| channel != Channel::Terminal.as_str()),
            env: Some(self.launch.env.clone()),
            rows,
            cols,
            ..CreateSessionRequest::default()
        }))
    }

    /// The request that starts a task that was made by this form.
    pub fn start_of(&self, task: coven_domain::TaskId) -> Call {
        Call::Task { id: task, action: TaskAction::Start(Box::new(self.launch.clone())) }
    }

    pub fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) -> Option<CursorPlace> {
        let title = match self.form {
            Form::Launch => "launch an agent",
            Form::Task => "new task",
        };
        let width = 76.min(area.width);
        let value_cols = width.saturating_sub(LABEL_COLS + 3);
        let height_of = |field: &Field| match &field.value {
            Value::Text(editor) => editor.height(value_cols).clamp(1, MAX_PROMPT_ROWS),
            Value::Choice { .. } => 1,
        };
        let heights: Vec<u16> = self.fields.iter().map(height_of).collect();
        let height = heights.iter().sum::<u16>() + 4;
        let inside = canvas::boxed(buffer, canvas::middle(area, width, height), title, theme.accent());
        if inside.width <= LABEL_COLS || inside.height < 2 {
            return None;
        }
        let foot = inside.bottom() - 1;
        // The field of the keyboard is visible.
        let mut first = 0;
        while heights[first..=self.at].iter().sum::<u16>() > foot - inside.y && first < self.at {
            first += 1;
        }
        let mut cursor = None;
        let mut y = inside.y;
        for (nth, field) in self.fields.iter().enumerate().skip(first) {
            let height = heights[nth].min(foot.saturating_sub(y));
            if height == 0 {
                break;
            }
            let is_at = nth == self.at;
            let mark = if is_at { "▌" } else { " " };
            canvas::put(buffer, inside.x, y, 1, mark, theme.accent());
            canvas::put(buffer, inside.x + 1, y, LABEL_COLS - 1, field.label, theme.key());
            let place = Rect { x: inside.x + LABEL_COLS, y, width: inside.width - LABEL_COLS, height };
            match &field.value {
                Value::Text(editor) => {
                    let drawn = editor.draw(buffer, place, theme.plain());
                    cursor = if is_at { drawn } else { cursor };
                }
                Value::Choice { options, selected } => {
                    let name = options.get(*selected).map_or("", |(name, _)| name);
                    let shown = if is_at { format!("‹ {name} ›") } else { name.to_owned() };
                    canvas::put(buffer, place.x, y, place.width, &shown, theme.plain());
                }
            }
            y += height;
        }
        let (foot_text, style) = match (&self.problem, self.is_sent) {
            (Some(why), _) => (why.as_str(), theme.bad()),
            (None, true) => ("sent, waiting for the daemon", theme.dim()),
            (None, false) => ("Enter launches  tab next  ←→ choose  alt-Enter new line  Esc cancel", theme.dim()),
        };
        let foot_text =
            if self.form == Form::Task { foot_text.replace("launches", "makes it") } else { foot_text.to_owned() };
        canvas::put(buffer, inside.x + 1, foot, inside.width - 1, &foot_text, style);
        cursor.filter(|_| !self.is_sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harness(id: &str, is_installed: bool) -> HarnessRecord {
        HarnessRecord {
            id: id.to_owned(),
            label: id.to_owned(),
            program: id.to_owned(),
            argv: Vec::new(),
            identity: String::new(),
            is_builtin: true,
            is_installed,
            path: None,
            version: None,
            note: String::new(),
        }
    }

    fn form() -> Fields {
        let mut fields =
            Fields::launch(LaunchContext { cwd: "/p".to_owned(), ..LaunchContext::default() }, Some((30, 100)));
        let known = vec![harness("claude", false), harness("codex", true)];
        fields.answered(&Call::Harnesses { path: None }, &Ok(Answer::Harnesses(known)));
        fields
    }

    #[test]
    fn installed_agents_come_first_and_enter_launches_the_chosen_one() {
        let mut fields = form();
        fields.key(KeyEvent::from(KeyCode::Tab));
        fields.paste("fix the tests");
        let DialogResult::Call(call) = fields.key(KeyEvent::from(KeyCode::Enter)) else {
            panic!("nothing is launched")
        };
        let Call::Launch(request) = *call else { panic!("not a launch") };
        assert_eq!(request.harness.as_deref(), Some("codex"));
        assert_eq!((request.prompt.as_deref(), request.cwd.as_deref()), (Some("fix the tests"), Some("/p")));
        assert_eq!((request.rows, request.cols), (Some(30), Some(100)));
    }

    #[test]
    fn a_refused_launch_keeps_what_was_typed() {
        let mut fields = form();
        fields.key(KeyEvent::from(KeyCode::Tab));
        fields.paste("fix the tests");
        let DialogResult::Call(call) = fields.key(KeyEvent::from(KeyCode::Enter)) else {
            panic!("nothing is launched")
        };
        assert_eq!(fields.key(KeyEvent::from(KeyCode::Enter)), DialogResult::Stay, "a second Enter launches nothing");
        fields.answered(&call, &Err("no such folder".to_owned()));
        assert!(matches!(fields.key(KeyEvent::from(KeyCode::Enter)), DialogResult::Call(again) if again == call));
    }

    #[test]
    fn a_worktree_makes_a_task() {
        let mut fields = form();
        fields.key(KeyEvent::from(KeyCode::Tab));
        fields.paste("fix\nall");
        for _ in 0..4 {
            fields.key(KeyEvent::from(KeyCode::Tab));
        }
        fields.key(KeyEvent::from(KeyCode::Right));
        let DialogResult::Call(call) = fields.key(KeyEvent::from(KeyCode::Enter)) else { panic!("nothing is made") };
        assert!(matches!(*call, Call::NewTask(request) if request.title == "fix" && fields.starts_task()));
    }

    #[test]
    fn it_is_drawn_at_any_size() {
        for (width, height) in (1..80).step_by(3).flat_map(|width| (1..14).map(move |height| (width, height))) {
            let area = Rect::new(0, 0, width, height);
            form().draw(&mut Buffer::empty(area), area, Theme { has_colors: true });
        }
    }
}
