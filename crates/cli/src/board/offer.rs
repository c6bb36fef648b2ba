//! What the board offers for a task: the actions its state allows, each with its key.

use coven_domain::lifecycle::Lifecycle as _;
use coven_domain::task::TaskFact;
use coven_domain::workflow::WorkflowFact;

use super::tasks::Card;
use crate::frame::menu;
pub use crate::frame::menu::{ENTER, key_name};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Open,
    Start,
    Approve,
    Reject,
    Diff,
    Release,
    Block,
    Unblock,
    Attach,
    Workflow,
    Retry,
    Cancel,
    Edit,
    Close,
    Delete,
}

pub type Offer = menu::Offer<Action>;

/// In the order of the menu.
pub const OFFERS: &[Offer] = &[
    Offer { action: Action::Open, key: ENTER, word: "open", help: "its text, run, changes and history" },
    Offer { action: Action::Start, key: 's', word: "start", help: "an agent works on it in a worktree of its own" },
    Offer { action: Action::Approve, key: 'a', word: "approve", help: "merge its work, after its checks" },
    Offer { action: Action::Reject, key: 'x', word: "reject", help: "block it with what is wrong; its worktree stays" },
    Offer { action: Action::Diff, key: 'd', word: "diff", help: "what it changed since it left its base" },
    Offer { action: Action::Unblock, key: 'u', word: "unblock", help: "let a blocked task be begun again" },
    Offer { action: Action::Attach, key: 'o', word: "attach", help: "attach to its session; detach to come back" },
    Offer { action: Action::Retry, key: 'R', word: "retry", help: "repeat the step that failed" },
    Offer { action: Action::Workflow, key: 'w', word: "workflow", help: "its run, step by step" },
    Offer {
        action: Action::Release,
        key: 'r',
        word: "release",
        help: "end whoever works on it; it can be begun again",
    },
    Offer { action: Action::Block, key: 'b', word: "block", help: "end whoever works on it, with a reason" },
    Offer { action: Action::Cancel, key: 'C', word: "cancel", help: "end its run and its process; asks" },
    Offer { action: Action::Edit, key: 'e', word: "edit", help: "change its fields" },
    Offer { action: Action::Close, key: 'c', word: "close", help: "close it, with a reason if there is one; asks" },
    Offer { action: Action::Delete, key: 'D', word: "delete", help: "hide it, alone or with all below it; asks" },
];

pub fn allows(card: &Card<'_>, action: Action) -> bool {
    // A newer daemon may know states that this board does not; nothing is offered for them.
    let task = |fact| card.task.status.after(fact).is_ok();
    let run = |fact| {
        let state = card.run.map(|run| run.status);
        state.is_some_and(|state| state.after(fact).is_ok())
    };
    match action {
        Action::Open | Action::Edit => true,
        Action::Delete => !card.task.status.is_at_work(),
        Action::Start => task(TaskFact::Claimed),
        Action::Approve => task(TaskFact::Approved),
        Action::Reject => task(TaskFact::Rejected),
        Action::Release => task(TaskFact::Released),
        Action::Block => task(TaskFact::Blocked),
        Action::Unblock => task(TaskFact::Unblocked),
        Action::Close => task(TaskFact::Closed),
        Action::Diff => card.task.base_commit.is_some(),
        Action::Attach => card.agent.is_some() || card.run.is_some(),
        Action::Workflow => card.run.is_some(),
        Action::Retry => run(WorkflowFact::Retried),
        Action::Cancel => run(WorkflowFact::Cancelled),
    }
}

/// The menu of a task.
pub fn offers(card: &Card<'_>) -> Vec<Offer> {
    OFFERS.iter().copied().filter(|offer| allows(card, offer.action)).collect()
}

/// Why a key of the menu does nothing now.
pub fn refusal(card: &Card<'_>, refused: &Offer) -> String {
    let possible: Vec<&str> = offers(card).iter().map(|offer| offer.word).collect();
    let (word, status) = (refused.word, &card.task.status);
    match refused.action {
        Action::Diff | Action::Attach | Action::Workflow => {
            format!("{word} is not possible: nobody has worked on it yet; possible now: {}", possible.join(", "))
        }
        Action::Retry | Action::Cancel => {
            let run = card.run.map_or("it has no run".to_owned(), |run| format!("its run is {}", run.status));
            format!("{word} is not possible: {run}; possible now: {}", possible.join(", "))
        }
        _ => format!("{word} is not possible: the task is {status}; possible now: {}", possible.join(", ")),
    }
}
