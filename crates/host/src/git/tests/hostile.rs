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

/// A program that leaves a mark and copies its input; and the mark.
fn marking(bench: &Bench, name: &str) -> (String, PathBuf) {
    let (program, mark) = (bench.aside.join(name), bench.aside.join(format!("{name}-was-run")));
    sh(
        &bench.aside,
        &format!("printf '#!/bin/sh\\ntouch {}\\nexec cat\\n' > {name}; chmod +x {name}", mark.display()),
    );
    (program.display().to_string(), mark)
}

#[test]
fn no_call_starts_maintenance() {
    let bench = bench();
    let (hook, mark) = marking(&bench, "hook");
    let worktree = bench.worktree();
    sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
    let MergeTry::Ready(merged) = bench.repository.try_merge("main", "coven/x", "m").expect("a merge") else {
        panic!("not ready")
    };
    // Enough loose objects for `gc.auto=1`, of which nothing refers to one.
    let lost = sh(
        bench.top(),
        &format!(
            "git config gc.recentObjectsHook {hook}; git config gc.auto 1; git config gc.autoDetach false; \
             git config maintenance.autoDetach false; git config gc.pruneExpire now; \
             for i in $(seq 600); do echo $i > .git/$i; done; git hash-object -w .git/[0-9]* > /dev/null; \
             git hash-object -w .git/1"
        ),
    );
    assert_eq!(bench.repository.land("main", &merged).expect("a landing"), Landing::Landed);
    assert!(!mark.exists());
    sh(bench.top(), &format!("git cat-file -e {lost}"));
}

#[test]
fn the_config_of_a_submodule_has_no_say_in_a_diff() {
    let bench = bench();
    let (external, mark) = marking(&bench, "external");
    let commit = "git -c user.name=t -c user.email=t commit -qm";
    sh(
        bench.top(),
        &format!(
            "git init -q lib; cd lib; echo 1 > l; git add -A; {commit} one; cd ..; git add lib 2> /dev/null; {commit} lib; \
             git checkout -q -b other; cd lib; echo 2 > l; {commit} two -a; git config diff.external {external}; cd ..; \
             git add lib; {commit} more; git config diff.submodule diff"
        ),
    );
    let repository = Repository::of(bench.top()).expect("a repository");
    let (patch, _) = repository.patch("main", "other", 1 << 20).expect("a patch");
    assert!(patch.contains("Subproject commit") && !mark.exists(), "{patch}");
}

#[test]
fn a_repository_inside_the_home_does_not_decide_what_is_tracked() {
    for inner in [
        // What a clone can bring: a bare repository among the tracked files.
        "mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; \
         printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\n' > config",
        // What an archive can bring.
        "git init -q .",
    ] {
        let bench = bench();
        let home = bench.top().join(".coven");
        fs::create_dir(&home).expect("a folder");
        sh(&home, "echo {} > config.json; git add -f config.json; git commit -qm settings; echo {} > other.json");
        sh(&home, inner);
        assert!(tracked(&home, &["config.json"]).has("config.json"), "{inner}");
    }
    let bench = bench();
    let home = bench.top().join(".coven");
    fs::create_dir_all(home.join("grimoires")).expect("a folder");
    sh(&home, "echo {} > config.json; touch grimoires/a.yaml; git add -f grimoires; git commit -qm workflow");
    let tracked_files = tracked(&home, &["config.json", "grimoires"]);
    assert!(tracked_files.has("grimoires/a.yaml") && !tracked_files.has("config.json"));
    // A home that is a repository on its own, outside of every other.
    let alone = bench.aside.join("alone");
    fs::create_dir(&alone).expect("a folder");
    sh(&alone, "git init -q; echo {} > config.json");
    assert!(!tracked(&alone, &["config.json"]).has("config.json"));
    sh(&alone, "git add config.json");
    assert!(tracked(&alone, &["config.json"]).has("config.json"));
}
