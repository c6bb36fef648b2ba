//! Titles, notifications, progress, bells and shell marks.

use std::time::Instant;

use coven_domain::activity::{Activity, ActivityFact, ActivitySource};
use coven_testing::{TestHome, eventually, wait_until};
use serde_json::json;

use super::{all_rules, source_and_detail, step};

#[test]
fn titles_say_that_the_agent_works_or_rests() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home
        .launch_fake(r"raw \e]2;* build\a ;; ask 1 ;; raw \e]0;- done\e\\ ;; ask 2 ;; raw \e]0;other\a ;; ask 3")
        .id;

    let working = home.wait_for_evidence(&id, Activity::Working);
    assert_eq!(source_and_detail(&working), ("signal".to_owned(), Some("* build")));
    let idle = step(&home, &id, Activity::Idle);
    assert!(idle.unseen);
    assert_eq!(idle.observations.len(), 2, "{idle:?}");
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "3\r\n");
    home.wait_for_screen(&id);
    assert_eq!(home.evidence(&id).activity, Some(Activity::Idle), "an unknown title means nothing");
}

#[test]
fn notifications_of_every_form_open_a_permission_that_work_closes() {
    let home = TestHome::started_with_rules(&all_rules());
    let forms = [
        r"\e]9;Approval requested: ls\a",
        r"\e]777;notify;Agent;Approval requested: ls\a",
        r"\e]99;i=1;Approval requested: ls\a",
    ];
    let script: Vec<String> =
        forms.iter().map(|form| format!(r"raw {form} ;; ask a ;; raw \e]9;4;3\a ;; ask b")).collect();
    let id = home.launch_fake(&script.join(" ;; ")).id;

    for round in 0..forms.len() {
        let asked = if round == 0 {
            home.wait_for_evidence(&id, Activity::Permission)
        } else {
            step(&home, &id, Activity::Permission)
        };
        assert_eq!(source_and_detail(&asked), ("signal".to_owned(), Some("Approval requested: ls")), "{round}");
        assert!(asked.unseen);
        step(&home, &id, Activity::Working);
    }
}

#[test]
fn details_that_change_often_are_stored_together_and_the_last_one_is_stored() {
    let rule =
        json!({ "name": "spinner", "on": "title", "means": "working", "starts": ["* ", "- "], "detail": "{line}" });
    let home = TestHome::started_with_rules(&json!([rule]));
    let started = Instant::now();
    let id = home.launch_fake("titles 60 40 ;; ask over").id;

    wait_until("the last detail is stored", || home.session(&id).activity_detail.as_deref() == Some("- 59"));

    let seconds = started.elapsed().as_secs();
    let events = home.events_since("0").items;
    let stored = events.iter().filter(|it| it.kind == "session.activity").count() as u64;
    assert!((2..=seconds + 2).contains(&stored), "{stored} events in {seconds} s");
    let evidence = home.evidence(&id);
    assert_eq!(evidence.observations.last().and_then(|it| it.detail.as_deref()), Some("- 59"));
}

#[test]
fn progress_is_not_a_notification_and_bells_follow_the_rules() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home.launch_fake(r"raw \e]9;4;1;40\a ;; ask 1 ;; raw \e]9;4;0\a ;; ask 2 ;; raw \a ;; ask 3").id;

    home.wait_for_evidence(&id, Activity::Working);
    step(&home, &id, Activity::Idle);
    let limited = step(&home, &id, Activity::Limited);
    let facts: Vec<ActivityFact> = limited.observations.iter().map(|it| it.fact).collect();
    assert_eq!(facts, [ActivityFact::Worked, ActivityFact::TurnEnded, ActivityFact::LimitReached]);
}

#[test]
fn a_shell_with_marks_works_while_a_command_runs_and_is_idle_at_its_prompt() {
    let home = TestHome::started();
    let id = home.launch_with(json!({ "harness": "shell" })).id;
    assert_eq!(home.evidence(&id).activity, Some(Activity::Unknown));

    home.type_in(&id, "mark() { printf '\\033]133;%s\\007' \"$1\"; }; mark A\n");
    home.wait_for_evidence(&id, Activity::Idle);
    home.type_in(&id, "mark C; read line; mark 'D;1'; mark A\n");
    home.wait_for_evidence(&id, Activity::Working);
    home.type_in(&id, "over\n");
    let idle = home.wait_for_evidence(&id, Activity::Idle);
    assert_eq!(idle.source, Some(ActivitySource::Signal));
}

#[test]
fn a_harness_without_rules_stays_unknown() {
    let home = TestHome::started();
    let id = home
        .launch(r"raw \e]2;* build\a ;; raw \e]9;Approval requested\a ;; raw \a ;; say Do you trust it? ;; ask 1")
        .id;

    home.wait_for_output(&id, "1\r\n");
    home.wait_for_screen(&id);
    let evidence = home.evidence(&id);
    assert_eq!((evidence.activity, evidence.observations), (Some(Activity::Unknown), Vec::new()));
}

#[test]
fn hostile_titles_are_cut_cleaned_and_cost_nothing_else() {
    let home = TestHome::started_with_rules(&all_rules());
    let controls = r"\e]2;* a\0b\nc\r\e[31m\a";
    let script = format!(r"raw {controls} ;; raw \e]9;Approval \0\nx\a ;; until huge ;; raw \e]2;* end\a ;; ask 1");
    let id = home.launch_fake(&script).id;
    let asked = home.wait_for_evidence(&id, Activity::Permission);
    for observation in &asked.observations {
        let detail = observation.detail.clone().unwrap_or_default();
        assert!(!detail.chars().any(char::is_control), "{detail:?}");
    }

    // An unfinished title of 10 MB, in another session; nothing of it is kept, and both sessions continue.
    let flood = home.launch_fake(r"raw \e]2;*  ;; flood 10000000 ;; raw \a\e]2;* after\a ;; ask 2").id;
    let after = eventually("the title after the flood", || {
        Some(home.evidence(&flood)).filter(|it| it.detail.as_deref() == Some("* after"))
    });
    assert!(after.observations.iter().all(|it| it.detail.as_ref().is_none_or(|detail| detail.len() <= 1000)));
    std::fs::write(home.project().join("huge"), "").expect("disk has space");
    let end = home.wait_for_evidence(&id, Activity::Working);
    assert_eq!(end.detail.as_deref(), Some("* end"));
}
