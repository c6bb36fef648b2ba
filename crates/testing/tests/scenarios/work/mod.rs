//! Tasks with runs: claims, worktrees, workflows, review, merge, recovery.

mod activity;
mod changes;
mod environment;
mod merging;
mod operations;
mod recovering;
mod running;
mod stopping;
mod workflows;
