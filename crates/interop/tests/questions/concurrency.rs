//! Many processes ask and answer concurrently: each asker gets its own answer exactly once.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::time::Duration;

use coven_domain::QuestionSetId;
use coven_domain::question::QuestionAnswer;
use coven_domain::question_set::QuestionSetState;
use coven_holder::clock;
use coven_interop::questions::{Limits, Listed, QuestionError, QuestionFolder, Waited};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::fixture::{Fixture, new_set, report_of};

const ASKERS: usize = 40;
const SETS: usize = 25;
const ANSWERERS: usize = 10;
const LIMITS: Limits = Limits { max_sessions: 1000 };
const DEADLINE: Duration = Duration::from_secs(60);

/// Asks `sets` times in sequence and reports whether every answer was for its own set.
pub fn ask(folder: &QuestionFolder, sets: usize) -> Result<String, QuestionError> {
    for _ in 0..sets {
        let call_id = uuid::Uuid::new_v4().to_string();
        let mut new = new_set();
        new.call_id = Some(call_id.clone());
        let id = folder.create(&new, &LIMITS, clock::now())?;
        match folder.wait(&id, Some(&call_id), Some(DEADLINE))? {
            Waited::Answered(answers) if answers == [for_set(&id, &answers[0].timestamp)] => {}
            other => return Ok(format!("{id} got {other:?}")),
        }
    }
    Ok("all answered".to_owned())
}

/// Answers pending sets until `sets` are finished and reports how many it answered itself.
pub fn answer(folder: &QuestionFolder, sets: usize) -> Result<String, QuestionError> {
    let mut watch = folder.watch()?;
    let (mut won, mut finished) = (0, HashSet::new());
    let until = std::time::Instant::now() + DEADLINE;
    let mut changed = all(folder)?;
    loop {
        for id in changed {
            if folder.read(&id)?.state == QuestionSetState::Pending {
                match folder.answer(&id, vec![for_set(&id, "")], clock::now()) {
                    Ok(()) => won += 1,
                    Err(QuestionError::AlreadyFinished { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            finished.insert(id);
        }
        if finished.len() == sets || std::time::Instant::now() > until {
            return Ok(won.to_string());
        }
        let timeout = Timespec { tv_sec: 5, tv_nsec: 0 };
        let is_notified =
            poll(&mut [PollFd::new(&watch.as_fd(), PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0);
        changed = if is_notified { watch.drain() } else { all(folder)? };
    }
}

fn all(folder: &QuestionFolder) -> Result<Vec<QuestionSetId>, QuestionError> {
    let ids = folder.list()?.into_iter().map(|listed| match listed {
        Listed::Sound(set) => Ok(set.id),
        Listed::Broken { why, .. } => Err(why),
    });
    ids.collect()
}

fn for_set(id: &QuestionSetId, timestamp: &str) -> QuestionAnswer {
    QuestionAnswer {
        custom_text: Some(format!("for {id}")),
        timestamp: timestamp.to_owned(),
        ..QuestionAnswer::default()
    }
}

#[test]
fn each_asker_gets_its_own_answer_once() {
    let fixture = Fixture::new();
    let start = |role: String| fixture.other(&role, None).spawn().expect("test binary starts");
    let answerers: Vec<_> = (0..ANSWERERS).map(|_| start(format!("answerers {}", ASKERS * SETS))).collect();
    let askers: Vec<_> = (0..ASKERS).map(|_| start(format!("askers {SETS}"))).collect();
    for asker in askers {
        assert_eq!(report_of(asker), "all answered");
    }
    let won: Vec<String> = answerers.into_iter().map(report_of).collect();
    let total: usize = won.iter().map(|count| count.parse::<usize>().expect("number")).sum();
    assert_eq!(total, ASKERS * SETS, "each set has exactly one answerer: {won:?}");
    let listed = fixture.folder.list().expect("readable folder");
    assert!(listed.iter().all(|it| matches!(it, Listed::Sound(set) if set.state == QuestionSetState::Completed)));
    for id in fixture.names(None) {
        let id = id.parse().expect("valid id");
        assert_eq!(fixture.names(Some(&id)), ["answers.json", "request.json", "status.json"], "no other file is left");
    }
}
