//! What the keys of the list and the entries of the palette do.

use coven_api::inbox::{AnswerRequest, InboxKind};
use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::session::{Action as SessionRule, SessionState};
use coven_domain::task::TaskFact;
use coven_domain::{SessionId, TaskId};

use super::{App, Effect, Focus};
use crate::dialog::fields::Fields;
use crate::dialog::palette::{Entry, Palette, Target};
use crate::dialog::{Dialog, Purpose, Typed};
use crate::feed::{Answer, Call, SessionAction, TaskAction};
use crate::frame::editor::Editor;
use crate::frame::keymap::{Action, Context};
use crate::frame::markdown;
use crate::pane::panes::Direction;
use crate::pane::scrollback::Scrollback;
use crate::setup::View;
use crate::world::Subject;

/// A selection that moved by itself within this time is not answered by a single key.
const SETTLE_MILLIS: i64 = 700;

impl App {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Up => self.move_selection(-1),
            Action::Down => self.move_selection(1),
            Action::PageUp => self.move_selection(-self.page()),
            Action::PageDown => self.move_selection(self.page()),
            Action::First => self.move_selection(-1_000_000),
            Action::Last => self.move_selection(1_000_000),
            Action::Left => self.board.step_column(-1),
            Action::Right => self.board.step_column(1),
            Action::Focus | Action::Review => self.focus_selected(),
            Action::NextNeed => self.next_need(1),
            Action::PreviousNeed => self.next_need(-1),
            Action::Allow => self.decide("allow"),
            Action::Reject => self.decide("deny"),
            Action::Filter => self.is_filtering = true,
            Action::Palette => self.open_palette(),
            Action::Agents => self.show(View::Agents),
            Action::Inbox => self.show(View::Inbox),
            Action::Board => self.show(View::Board),
            Action::History => self.show(View::History),
            Action::Launch => self.open_fields(Fields::launch),
            Action::NewTask => self.open_fields(|launch, _| Fields::task(launch)),
            Action::Zoom => self.is_zoomed = !self.is_zoomed,
            Action::SplitRight => self.split(Direction::Right),
            Action::SplitBelow => self.split(Direction::Below),
            Action::NextPane => self.next_pane(),
            Action::ClosePane => self.close_pane(),
            Action::Redraw => self.effect(Effect::Redraw),
            Action::Suspend => self.effect(Effect::Suspend),
            Action::Help => {
                let mut rows = self.settings.keymap.help(self.context());
                let back: Vec<String> = self.settings.detach_keys.iter().map(ToString::to_string).collect();
                rows.push(("1-9".to_owned(), "that row; in a question: that option"));
                rows.push((back.join(" "), "from a pane back to the list"));
                self.dialog = Some(Dialog::Help { rows, scroll: 0 });
            }
            Action::Quit => self.effect(Effect::Quit),
            Action::Start | Action::Delete if self.context() == Context::Board => self.task_action(action),
            Action::Approve | Action::RejectWork | Action::Block | Action::Unblock | Action::Close => {
                self.task_action(action);
            }
            Action::Start
            | Action::Kill
            | Action::Archive
            | Action::Summon
            | Action::Sacrifice
            | Action::Rename
            | Action::Replay
            | Action::Export
            | Action::Scroll
            | Action::Delete => self.session_action(action),
        }
    }

    fn page(&self) -> isize {
        isize::try_from(self.areas().list_rows().height.saturating_sub(1).max(1)).unwrap_or(10)
    }

    /// The session that the selected row is about.
    fn selected_session(&self) -> Option<SessionId> {
        match self.selected()? {
            Subject::Session(id) => Some(id),
            Subject::Item(id) => self.world.item(&id)?.session_id,
            Subject::Task(_) => None,
        }
    }

    fn selected_task(&self) -> Option<TaskId> {
        match self.selected()? {
            Subject::Task(id) => Some(id),
            Subject::Session(_) | Subject::Item(_) => None,
        }
    }

    /// Answers the selected permission with one key: once, never for ever.
    fn decide(&mut self, decision: &str) {
        if self.now.as_millis() - self.moved_at.as_millis() < SETTLE_MILLIS {
            return self.notice("the selection has just changed; look, and press the key again");
        }
        let Some(item) = self.selected_item() else { return self.notice("nothing here asks for a permission") };
        if item.kind != InboxKind::Permission {
            return self.notice("this is not a permission; Enter opens it");
        }
        let kind = if decision == "allow" { "allow_once" } else { "reject_once" };
        let (id, title) = (item.id.clone(), item.title.clone());
        let Some(option) = item.options.iter().find(|option| option.kind == kind).map(|option| option.id.clone())
        else {
            return self.notice("the agent offers no such answer for once; Enter shows its options");
        };
        if self.forms.get(&id).is_some_and(|form| form.is_sent) || self.answering.contains(&id) {
            return;
        }
        self.answering.push(id.clone());
        self.notice(format!("{}: {title}", if decision == "allow" { "allowed" } else { "rejected" }));
        self.call(Call::Answer {
            item: id,
            answer: AnswerRequest { option: Some(option), ..AnswerRequest::default() },
        });
    }

    fn open_fields(&mut self, build: impl FnOnce(crate::setup::LaunchContext, Option<(u16, u16)>) -> Fields) {
        let size = self.areas().content(0).map(|area| (area.height.max(1), area.width.max(2)));
        self.dialog = Some(Dialog::Fields(build(self.launch.clone(), size)));
        self.call(Call::Harnesses { path: self.launch.env.get("PATH").cloned() });
    }

    fn open_palette(&mut self) {
        let views = View::ALL.iter().map(|view| Entry {
            target: Target::View(*view),
            name: view.to_string(),
            remark: "view".to_owned(),
        });
        let actions = self
            .settings
            .keymap
            .actions(self.context())
            .into_iter()
            .filter(|(action, ..)| is_offered(*action) && self.is_possible(*action));
        let actions = actions.map(|(action, keys, help)| Entry {
            target: Target::Action(action),
            name: help.to_owned(),
            remark: keys,
        });
        let mut entries: Vec<Entry> = views.chain(actions).collect();
        entries.extend(self.world.rows().into_iter().map(|row| Entry {
            target: Target::Subject(row.subject),
            name: format!("{} {}", row.harness, row.title),
            remark: row.group.to_string(),
        }));
        entries.extend(self.world.tasks().map(|task| Entry {
            target: Target::Subject(Subject::Task(task.id)),
            name: task.title.clone(),
            remark: format!("task, {}", task.status),
        }));
        self.dialog = Some(Dialog::Palette(Palette::new(entries)));
    }

    /// Reports whether the selection allows an action now.
    fn is_possible(&self, action: Action) -> bool {
        if let Some(fact) = task_fact(action)
            && self.context() == Context::Board
        {
            let state = self.selected_task().and_then(|id| self.world.task(id)).map(|task| task.status);
            return state.is_some_and(|state| state.after(fact).is_ok());
        }
        if task_fact(action).is_some() && session_rule(action).is_none() {
            return false;
        }
        let Some(rule) = session_rule(action) else { return true };
        let session =
            self.selected_session().and_then(|id| self.world.session(id).or_else(|| self.history.session(id)));
        session.is_some_and(|session| session.actions.contains(&rule))
    }

    fn session_action(&mut self, action: Action) {
        let Some(id) = self.selected_session() else { return self.notice("select a session first") };
        let Some(record) = self.world.session(id).or_else(|| self.history.session(id)) else {
            return self.notice("this session is no longer here");
        };
        let (status, title, actions) = (record.status.to_string(), record.title.clone(), record.actions.clone());
        let is_created = record.status == SessionState::Created;
        let call = |action| Box::new(Call::Session { id, action });
        let Some(rule) = session_rule(action) else {
            self.dialog = Some(Dialog::Line {
                title: "new title",
                editor: Editor::one_line(&title),
                purpose: Purpose::Rename(id),
            });
            return;
        };
        if !self.allows(rule, &status, &actions, action) {
            return;
        }
        match action {
            Action::Start => self.call(*call(SessionAction::Start(Box::new(self.launch.clone())))),
            Action::Archive => self.call(*call(SessionAction::Archive)),
            Action::Summon => self.call(*call(SessionAction::Summon)),
            Action::Kill => {
                let question = format!("Kill {title}? Its processes end now; its output is kept.");
                self.dialog = Some(Dialog::Confirm { question, call: call(SessionAction::Kill), typed: None });
            }
            Action::Sacrifice | Action::Delete => {
                let what = if is_created { "its record" } else { "its record and its output" };
                let question = format!("Delete {title} for ever, with {what}? Nothing can bring it back.");
                let typed = Some(Typed { word: "sacrifice", editor: Editor::one_line("") });
                self.dialog = Some(Dialog::Confirm { question, call: call(SessionAction::Sacrifice), typed });
            }
            Action::Export => {
                let file = format!("{}.txt", id.to_string().split('-').next().unwrap_or_default());
                self.dialog = Some(Dialog::Line {
                    title: "export to a file: .txt, .cast, .html or .jsonl",
                    editor: Editor::one_line(&format!("{}/{file}", self.launch.cwd)),
                    purpose: Purpose::Export(id),
                });
            }
            Action::Replay => self.open_scrollback(id, true),
            _ => self.open_scrollback(id, false),
        }
    }

    pub(super) fn open_scrollback(&mut self, id: SessionId, is_replay: bool) {
        // In a narrow frame the pane has no content until it is shown.
        if self.focus == Focus::List && self.active_pane().subject != self.selected() {
            self.active = 0;
        }
        self.focus = Focus::Pane;
        self.is_opening = true;
        self.refresh_panes();
        self.is_opening = false;
        let (scrollback, effects) = match is_replay {
            true => Scrollback::replay(id, self.now),
            false => Scrollback::output(id),
        };
        self.active_pane_mut().scrollback = Some(Box::new(scrollback));
        self.effects.extend(effects);
    }

    fn task_action(&mut self, action: Action) {
        let Some(id) = self.selected_task() else { return self.notice("select a task first") };
        let Some(task) = self.world.task(id) else { return self.notice("this task is no longer here") };
        let title = task.title.clone();
        if let Some(Err(refused)) = task_fact(action).map(|fact| task.status.after(fact)) {
            return self.problem(refused.to_string());
        }
        let call = |action| Box::new(Call::Task { id, action });
        let mut ask = |title, purpose| {
            self.dialog = Some(Dialog::Line { title, editor: Editor::one_line(""), purpose });
        };
        match action {
            Action::RejectWork => ask("reject the work, because", Purpose::RejectWork(id)),
            Action::Block => ask("block the task, because", Purpose::Block(id)),
            Action::Close => ask("close the task, because (optional)", Purpose::Close(id)),
            Action::Approve => {
                let question = format!("Approve {title}? Its branch is merged.");
                self.dialog = Some(Dialog::Confirm { question, call: call(TaskAction::Approve), typed: None });
            }
            Action::Delete => {
                let question = format!("Delete the task {title}?");
                self.dialog = Some(Dialog::Confirm { question, call: call(TaskAction::Delete), typed: None });
            }
            Action::Unblock => self.call(*call(TaskAction::Unblock)),
            _ => self.call(*call(TaskAction::Start(Box::new(self.launch.clone())))),
        }
    }

    /// Tells the user what became of a request, and shows what it made.
    pub(super) fn say_done(&mut self, call: &Call, result: &Result<Answer, String>) {
        if let Call::Answer { item, .. } = call {
            self.answering.retain(|id| id != item);
            match result {
                Ok(_) => {
                    let title = self.world.item(item).map(|item| markdown::plain(&item.title));
                    if self.notice.is_none() {
                        self.notice(format!("answered: {}", title.unwrap_or_default()));
                    }
                    self.world.answered(item);
                    self.forms.remove(item);
                    self.changed();
                }
                // The form keeps what was typed.
                Err(_) => {
                    if let Some(form) = self.forms.get_mut(item) {
                        form.is_sent = false;
                    }
                }
            }
        }
        match (call, result) {
            // The form shows it.
            (Call::Launch(_) | Call::NewTask(_) | Call::Harnesses { .. }, Err(_)) if self.dialog.is_some() => {}
            // Panes show these themselves.
            (
                Call::Diff(_)
                | Call::Messages { .. }
                | Call::AcpState(_)
                | Call::Entries { .. }
                | Call::Sessions(_)
                | Call::Look { .. },
                Err(_),
            ) => {}
            (_, Err(why)) => self.problem(why.clone()),
            (Call::Launch(_), Ok(Answer::Session(record))) => {
                let is_shown = matches!(&self.dialog, Some(Dialog::Fields(fields)) if !fields.is_background());
                self.dialog = None;
                self.notice(format!("launched {}", record.title));
                if is_shown {
                    self.go(&Subject::Session(record.id));
                    self.focus_selected();
                }
            }
            (Call::NewTask(_), Ok(Answer::Task(task))) => {
                let form = self.dialog.take();
                if let Some(Dialog::Fields(fields)) = form {
                    if fields.starts_task() {
                        self.call(fields.start_of(task.id));
                    }
                    if !fields.is_background() {
                        self.go(&Subject::Task(task.id));
                    }
                }
                self.notice(format!("made the task {}", task.title));
            }
            (Call::Session { action, .. }, Ok(_)) => {
                if let Some(done) = done(action) {
                    self.notice(done);
                }
            }
            (Call::Task { action: TaskAction::Approve, .. }, Ok(_)) => {
                self.notice("approved; the work is being merged");
            }
            (Call::Task { id, action: TaskAction::Delete }, Ok(_)) => {
                self.world.remove_task(*id);
                self.changed();
                self.notice("deleted");
            }
            _ => {}
        }
    }

    /// Selects a thing, in the view where it is listed.
    pub(super) fn go(&mut self, subject: &Subject) {
        self.filter.take();
        let is_listed_session = |app: &Self| match subject {
            Subject::Session(id) => app.world.session(*id).is_some_and(|record| record.archived_at.is_none()),
            Subject::Item(_) => true,
            Subject::Task(_) => false,
        };
        self.show(match subject {
            Subject::Task(_) => View::Board,
            _ if is_listed_session(self) => View::Agents,
            Subject::Item(_) => View::Inbox,
            Subject::Session(_) => View::History,
        });
        self.changed();
        self.refresh();
        self.select(subject);
        self.reveal();
    }
}

/// What an action does to a task.
const fn task_fact(action: Action) -> Option<TaskFact> {
    Some(match action {
        Action::Start => TaskFact::Claimed,
        Action::Approve => TaskFact::Approved,
        Action::RejectWork => TaskFact::Rejected,
        Action::Block => TaskFact::Blocked,
        Action::Unblock => TaskFact::Unblocked,
        Action::Close => TaskFact::Closed,
        _ => return None,
    })
}

/// What an action needs a session to allow.
const fn session_rule(action: Action) -> Option<SessionRule> {
    Some(match action {
        Action::Start => SessionRule::Start,
        Action::Kill => SessionRule::Kill,
        Action::Archive => SessionRule::Archive,
        Action::Summon => SessionRule::Summon,
        Action::Sacrifice | Action::Delete => SessionRule::Sacrifice,
        Action::Export => SessionRule::Export,
        Action::Scroll | Action::Replay => SessionRule::Replay,
        _ => return None,
    })
}

/// The palette offers what acts on the selection or the frame, and nothing that moves in lists.
const fn is_offered(action: Action) -> bool {
    !matches!(
        action,
        Action::Up
            | Action::Down
            | Action::PageUp
            | Action::PageDown
            | Action::First
            | Action::Last
            | Action::Left
            | Action::Right
            | Action::Palette
            | Action::Agents
            | Action::Inbox
            | Action::Board
            | Action::History
    )
}

const fn done(action: &SessionAction) -> Option<&'static str> {
    Some(match action {
        SessionAction::Start(_) => "started",
        SessionAction::Kill => "killed",
        SessionAction::Archive => "archived; the History view has it",
        SessionAction::Summon => "back from the archive",
        SessionAction::Sacrifice => "deleted for ever",
        SessionAction::Rename(_) => return None,
    })
}
