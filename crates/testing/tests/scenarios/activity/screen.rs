//! Screen rules: a dialog opens a question, and its end closes it.

use coven_domain::activity::{Activity, ActivityFact, ActivitySource};
use coven_testing::TestHome;

use super::{all_rules, source_and_detail, step};

#[test]
fn a_dialog_on_the_screen_is_a_question_until_it_is_gone() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home.launch_fake(r"raw Do you trust this folder?\n ;; ask 1 ;; raw \e[2J\e[Hwelcome ;; ask 2 ;; ask 3").id;

    let asked = home.wait_for_evidence(&id, Activity::Question);
    assert_eq!(source_and_detail(&asked), ("screen".to_owned(), Some("asks: Do you trust this folder?")));
    assert!(asked.unseen);
    let settled = step(&home, &id, Activity::Working);
    let facts: Vec<ActivityFact> = settled.observations.iter().map(|it| it.fact).collect();
    assert_eq!(facts, [ActivityFact::QuestionAsked, ActivityFact::Settled]);
    // More output without a match means nothing.
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "3\r\n");
    home.wait_for_screen(&id);
    assert_eq!(home.evidence(&id).observations.len(), 2);
}

#[test]
fn a_title_that_rests_counts_again_when_a_dialog_closes() {
    let home = TestHome::started_with_rules(&all_rules());
    let script = r"raw \e]2;- mine\a ;; ask 0 ;; raw Do you trust it? ;; ask 1 ;; raw \e[2J\e[Hwelcome ;; ask 2";
    let id = home.launch_fake(script).id;

    home.wait_for_evidence(&id, Activity::Idle);
    home.type_in(&id, "\r");
    // The title is the stronger source, so the dialog counts after a moment of silence.
    home.wait_for_evidence(&id, Activity::Question);
    let idle = step(&home, &id, Activity::Idle);
    assert_eq!(idle.source, Some(ActivitySource::Signal));
}

#[test]
fn a_spinner_in_the_title_does_not_contradict_a_refusal_on_the_screen() {
    let home = TestHome::started_with_rules(&all_rules());
    let refused = r"raw \e]2;* mine\a ;; ask 1 ;; raw 429, retries in 9 s ;; ask 2 ;; raw \e]2;* yours\a ;; ask 3";
    let spin = r" ;; raw \e]2;* mine\a ;; ask 5 ;; raw \e]2;* yours\a ;; ask 6".repeat(100);
    let script = format!(r"{refused} ;; raw \e[2J\e[H ;; ask 4{spin}");
    let id = home.launch_fake(&script).id;

    home.wait_for_evidence(&id, Activity::Working);
    let limited = step(&home, &id, Activity::Limited);
    assert_eq!(limited.source, Some(ActivitySource::Screen));
    home.type_in(&id, "\r");
    home.wait_for_output(&id, "3\r\n");
    home.wait_for_screen(&id);
    assert_eq!(home.evidence(&id).activity, Some(Activity::Limited));
    // Without the refusal on the screen, the spinner says again that the agent works.
    coven_testing::wait_until("the spinner counts again", || {
        home.type_in(&id, "\r");
        home.evidence(&id).activity == Some(Activity::Working)
    });
}

#[test]
fn the_end_of_a_dialog_does_not_close_the_request_of_a_hook() {
    let home = TestHome::started_with_rules(&all_rules());
    let permission = r#"{"title":"wants to run: ls","options":[{"id":"y","name":"Yes","kind":"allow_once"}]}"#;
    let script =
        format!(r"raw Do you trust it?\n ;; ask 1 ;; raw \e[2J\e[Hwelcome ;; hook permission wait {permission}");
    let id = home.launch_fake(&script).id;
    home.wait_for_evidence(&id, Activity::Question);
    home.type_in(&id, "\r");
    let asked = home.wait_for_request(&id);

    // Longer than a weaker source needs: another session's dialog opens and closes after this one.
    let other = home.launch_fake(r"raw Do you trust it?\n ;; ask 1 ;; raw \e[2J\e[Hwelcome ;; ask 2").id;
    home.wait_for_evidence(&other, Activity::Question);
    step(&home, &other, Activity::Working);
    let third = home.launch_fake(r"raw \e]2;- mine\a ;; ask 0 ;; raw Do you trust it? ;; ask 1").id;
    home.wait_for_evidence(&third, Activity::Idle);
    step(&home, &third, Activity::Question);

    assert_eq!(home.evidence(&id).activity, Some(Activity::Permission));
    assert_eq!(home.answer_request(&asked.id, &serde_json::json!({ "decision": "allow" })).status, 200);
    home.wait_for_output(&id, r#"{"decision":"allow","option":"y"}"#);
}

#[test]
fn the_last_screen_of_a_flood_is_evaluated() {
    let home = TestHome::started_with_rules(&all_rules());
    let id = home.launch_fake("flood 3000000 ;; say Do you trust it? ;; hang").id;

    home.wait_for_evidence(&id, Activity::Question);
}
