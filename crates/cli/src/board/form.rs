//! The form for a new task, or for the fields of one that is there.

use coven_api::task::{CreateTaskRequest, EditTaskRequest, TaskRecord};
use coven_domain::TaskId;
use coven_domain::task::TaskKind;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::report::{Request, What};
use crate::tui::line::Line;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    Title,
    Body,
    Type,
    Priority,
    Tags,
    Harness,
    Workflow,
    Base,
    DependsOn,
    Parent,
}

impl Name {
    pub const ALL: [Self; 10] = [
        Self::Title,
        Self::Body,
        Self::Type,
        Self::Priority,
        Self::Tags,
        Self::Harness,
        Self::Workflow,
        Self::Base,
        Self::DependsOn,
        Self::Parent,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Body => "body",
            Self::Type => "type",
            Self::Priority => "priority",
            Self::Tags => "tags",
            Self::Harness => "harness",
            Self::Workflow => "workflow",
            Self::Base => "base",
            Self::DependsOn => "depends on",
            Self::Parent => "parent",
        }
    }

    /// What is to be typed, where that is not plain.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Title => "",
            Self::Body => "^J begins a new line",
            Self::Type => "← → changes it",
            Self::Priority => "← → changes it; 0 is first",
            Self::Tags => "words",
            Self::Harness => "the configured one if empty",
            Self::Workflow => "implement if empty",
            Self::Base => "the branch it is merged into",
            Self::DependsOn => "ids of what must be closed first",
            Self::Parent => "the id of what it is a part of",
        }
    }

    /// What can be chosen, where not everything can be typed.
    fn choices(self) -> Vec<&'static str> {
        match self {
            Self::Type => TaskKind::ALL.iter().map(|kind| kind.as_str()).collect(),
            Self::Priority => vec!["0", "1", "2", "3", "4"],
            _ => Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The task that is changed, as it was when the form was opened; none for a new one.
    pub task: Option<Box<TaskRecord>>,
    fields: Vec<Line>,
    pub cursor: usize,
}

/// What a key did to the form.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    Stays,
    Left,
    Sent,
}

impl Form {
    pub fn new() -> Self {
        let empty = |name: Name| match name {
            Name::Type => Line::new("task"),
            Name::Priority => Line::new("2"),
            _ => Line::default(),
        };
        Self { task: None, fields: Name::ALL.map(empty).to_vec(), cursor: 0 }
    }

    pub fn of(task: &TaskRecord) -> Self {
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        let ids = |ids: &[TaskId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let filled = |name: Name| {
            Line::new(match name {
                Name::Title => task.title.clone(),
                Name::Body => task.body.clone(),
                Name::Type => task.kind.to_string(),
                Name::Priority => task.priority.get().to_string(),
                Name::Tags => task.tags.join(" "),
                Name::Harness => optional(&task.harness),
                Name::Workflow => optional(&task.workflow),
                Name::Base => optional(&task.base_branch),
                Name::DependsOn => ids(&task.depends_on),
                Name::Parent => ids(task.parent_id.as_slice()),
            })
        };
        Self { task: Some(Box::new(task.clone())), fields: Name::ALL.map(filled).to_vec(), cursor: 0 }
    }

    pub fn field(&self, name: Name) -> &Line {
        &self.fields[name as usize]
    }

    fn text(&self, name: Name) -> String {
        self.field(name).text().trim().to_owned()
    }

    fn given(&self, name: Name) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    fn words(&self, name: Name) -> Vec<String> {
        let is_between = |c: char| c == ',' || c.is_whitespace();
        self.text(name).split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    pub fn is_untouched(&self) -> bool {
        *self.fields == *self.task.as_ref().map_or_else(Self::new, |task| Self::of(task)).fields
    }

    pub fn key(&mut self, key: KeyEvent) -> Step {
        let name = Name::ALL[self.cursor];
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Step::Left,
            KeyCode::Enter => return Step::Sent,
            KeyCode::Tab | KeyCode::Down => self.cursor = (self.cursor + 1) % Name::ALL.len(),
            KeyCode::BackTab | KeyCode::Up => self.cursor = (self.cursor + Name::ALL.len() - 1) % Name::ALL.len(),
            KeyCode::Char('j') if control && name == Name::Body => self.fields[self.cursor].insert("\n"),
            code if !name.choices().is_empty() => self.choose(name, code),
            _ => {
                self.fields[self.cursor].edit(key);
            }
        }
        Step::Stays
    }

    /// Left and right go through the choices; a letter takes the first that begins with it.
    fn choose(&mut self, name: Name, key: KeyCode) {
        let choices = name.choices();
        let at = choices.iter().position(|choice| *choice == self.fields[self.cursor].text()).unwrap_or(0);
        let chosen = match key {
            KeyCode::Right | KeyCode::Char(' ') => Some((at + 1) % choices.len()),
            KeyCode::Left => Some((at + choices.len() - 1) % choices.len()),
            KeyCode::Char(c) => choices.iter().position(|choice| choice.starts_with(c)),
            _ => None,
        };
        if let Some(chosen) = chosen {
            self.fields[self.cursor] = Line::new(choices[chosen]);
        }
    }

    pub fn paste(&mut self, text: &str) {
        let name = Name::ALL[self.cursor];
        if !name.choices().is_empty() {
            return;
        }
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = if name == Name::Body { text } else { text.replace('\n', " ") };
        self.fields[self.cursor].insert(&text);
    }

    /// What the form asks for; nothing if nothing was changed.
    pub fn request(&self, repo: Option<&str>) -> Option<Request> {
        let priority = self.text(Name::Priority).parse().ok();
        let Some(task) = &self.task else {
            let request = CreateTaskRequest {
                title: self.text(Name::Title),
                body: self.given(Name::Body),
                kind: self.given(Name::Type),
                priority,
                parent: self.given(Name::Parent),
                depends_on: self.words(Name::DependsOn),
                tags: self.words(Name::Tags),
                harness: self.given(Name::Harness),
                args: Vec::new(),
                workflow: self.given(Name::Workflow),
                base_branch: self.given(Name::Base),
                repo: repo.map(str::to_owned),
                reference: None,
                by: None,
            };
            return Some(Request { id: String::new(), what: What::Create(Box::new(request)) });
        };
        let before = Self::of(task);
        // Only what was changed is sent: somebody else may have changed the rest.
        let is_changed = |name: Name| self.text(name) != before.text(name);
        let request = EditTaskRequest {
            title: is_changed(Name::Title).then(|| self.text(Name::Title)),
            body: is_changed(Name::Body).then(|| self.text(Name::Body)),
            kind: is_changed(Name::Type).then(|| self.text(Name::Type)),
            priority: priority.filter(|_| is_changed(Name::Priority)),
            parent: is_changed(Name::Parent).then(|| self.given(Name::Parent)),
            depends_on: is_changed(Name::DependsOn).then(|| self.words(Name::DependsOn)),
            tags: is_changed(Name::Tags).then(|| self.words(Name::Tags)),
            harness: is_changed(Name::Harness).then(|| self.given(Name::Harness)),
            args: None,
            workflow: is_changed(Name::Workflow).then(|| self.given(Name::Workflow)),
            base_branch: is_changed(Name::Base).then(|| self.given(Name::Base)),
            repo: None,
            by: None,
        };
        if request == EditTaskRequest::default() {
            return None;
        }
        Some(Request { id: task.id.to_string(), what: What::Edit(Box::new(request)) })
    }
}
