//! STORE-03: settings and their defaults.

use coven_testing::TestHome;
use serde_json::{Value, json};

#[test]
fn store_03_settings_of_the_store_that_are_not_in_the_config_have_defaults() {
    let home = TestHome::new();
    home.configure(json!({ "store": { "taskRetentionDays": 3, "eventRetentionHours": 0.5 } }));

    let shown: Value = home.json(&["config", "show"]);

    let expected = json!({
        "eventRetentionHours": 0.5,
        "taskRetentionDays": 3.0,
        "taskSoftDeleteDays": 7.0,
        "workflowRetentionDays": 7.0,
        "claimTimeoutMinutes": 30.0,
    });
    assert_eq!(shown["store"], expected);
    home.start();
    assert!(home.health().ok);
}

#[test]
fn store_03_without_a_config_file_the_documented_defaults_apply() {
    let home = TestHome::new();
    std::fs::remove_file(home.path().join("config.json")).expect("existed");

    let shown: Value = home.json(&["config", "show"]);

    let expected = json!({
        "eventRetentionHours": 24.0,
        "taskRetentionDays": 30.0,
        "taskSoftDeleteDays": 7.0,
        "workflowRetentionDays": 7.0,
        "claimTimeoutMinutes": 30.0,
    });
    assert_eq!(shown["store"], expected);
}
