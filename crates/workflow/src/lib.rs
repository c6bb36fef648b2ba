//! Workflow files, which define a task's steps: parsing, checks, templates and the choice of the next step.

#![cfg_attr(not(test), warn(unused_crate_dependencies))]

mod advance;
mod bounded;
mod check;
mod definition;
mod keys;
mod result;
mod rewrite;
mod step_activity;
mod template;

pub use advance::{EvalContext, NextStep, Overdue, RunEffect, StepCompletion};
pub use check::Problem;
pub use definition::{BUILT_IN, EndsOn, OnFail, OnMax, Step, StepChannel, StepKind, WorkflowDefinition};
pub use result::{Verdict, verdict};
pub use step_activity::{StepActivity, StepSignal};
pub use template::{BadTemplate, Scope};
