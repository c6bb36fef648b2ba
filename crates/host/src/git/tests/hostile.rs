//! Repositories that come with a config, files or folders of an attacker, as an unpacked archive does.

use std::env;

use super::*;

/// Runs the named test again in a process of its own, with `PATH` and the current folder of the attacker's choice.
fn again(test: &str, folder: &Path, path: &str) {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", &format!("git::tests::hostile::{test}")]);
    command.env("COVEN_TEST_AGAIN", "1").env("PATH", path).current_dir(folder);
    let output = command.output().expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_git_in_the_current_folder_does_not_run() {
    if env::var_os("COVEN_TEST_AGAIN").is_some() {
        top_of(Path::new(".")).expect("a repository");
        return;
    }
    let bench = bench();
    sh(bench.top(), "printf '#!/bin/sh\\ntouch was-run\\nexit 1\\n' > git; chmod +x git");
    let path = env::var("PATH").expect("a path");
    for relative in [".", "", "../repo"] {
        again("a_git_in_the_current_folder_does_not_run", bench.top(), &format!("{relative}:{path}"));
        assert!(!bench.top().join("was-run").exists(), "{relative:?}");
    }
}
