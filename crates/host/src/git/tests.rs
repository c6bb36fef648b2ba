//! Tests with real repositories and worktrees.

mod hostile;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

struct Fixture {
    _folder: tempfile::TempDir,
    repository: Repository,
    aside: PathBuf,
}

fn sh(folder: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output().expect("a shell");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates a repository with one commit on `main`, which is checked out.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let base = fs::canonicalize(folder.path()).expect("the folder exists");
    let (top, aside) = (base.join("repo"), base.join("aside"));
    fs::create_dir_all(&top).expect("a folder");
    fs::create_dir_all(&aside).expect("a folder");
    sh(
        &top,
        "git init -q -b main; git config user.name t; git config user.email t@t; printf '1\\n2\\n3\\n' > a.txt; \
         echo '*.o' > .gitignore; git add -A; git commit -qm first",
    );
    Fixture { _folder: folder, repository: Repository::of(&top).expect("a repository"), aside }
}

impl Fixture {
    fn worktree(&self) -> Worktree {
        let worktree = self.repository.worktree(&self.aside.join("w"), "coven/x");
        worktree.ensure("main").expect("a worktree");
        worktree
    }

    fn top(&self) -> &Path {
        self.repository.top()
    }
}

#[test]
fn the_top_folder_is_found_from_a_folder_inside() {
    let dir = tempfile::tempdir().expect("a folder");
    let base = fs::canonicalize(dir.path()).expect("the folder exists");
    assert!(matches!(top_of(&base), Err(GitError::NotARepository(_))));
    sh(&base, "git init -q");
    fs::create_dir_all(base.join("a/b")).expect("folders");
    assert_eq!(top_of(&base.join("a/b")).expect("a repository"), base);
    assert!(matches!(top_of(&base.join("none")), Err(GitError::NotARepository(_))));
}

#[test]
fn the_base_is_the_named_or_checked_out_branch() {
    let fixture = fixture();
    let commit = sh(fixture.top(), "git branch other; git rev-parse HEAD");
    assert_eq!(fixture.repository.base(None).expect("a base"), ("main".to_owned(), commit.clone()));
    assert_eq!(fixture.repository.base(Some("other")).expect("a base"), ("other".to_owned(), commit));
    assert!(matches!(fixture.repository.base(Some("none")), Err(GitError::UnknownBranch(_))));
    assert!(matches!(fixture.repository.base(Some("--all")), Err(GitError::UnknownBranch(_))));
    assert!(matches!(fixture.repository.base(Some("main^0")), Err(GitError::UnknownBranch(_))));
    sh(fixture.top(), "git checkout -q --detach");
    assert!(matches!(fixture.repository.base(None), Err(GitError::NoBranch)));
    sh(fixture.top(), "git checkout -q --orphan empty");
    assert!(matches!(fixture.repository.base(None), Err(GitError::NoCommit)));
}

#[test]
fn an_existing_worktree_is_reused() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    assert_eq!(sh(&worktree.folder, "git branch --show-current; cat a.txt"), "coven/x\n1\n2\n3");
    fs::write(worktree.folder.join("new.txt"), "new").expect("a file");
    worktree.ensure("main").expect("an existing worktree");
    assert!(worktree.folder.join("new.txt").exists());
    // If the folder was deleted, the work continues from the branch.
    sh(&worktree.folder, "git add -A; git commit -qm work");
    fs::remove_dir_all(&worktree.folder).expect("the folder is deleted");
    worktree.ensure("main").expect("a new worktree");
    assert!(worktree.folder.join("new.txt").exists());
    // Existing files are never replaced.
    let other = fixture.repository.worktree(&fixture.aside.join("o"), "coven/o");
    fs::create_dir(&other.folder).expect("a folder");
    fs::write(other.folder.join("mine"), "").expect("a file");
    assert!(matches!(other.ensure("main"), Err(GitError::Refused(_))));
    assert_eq!(sh(fixture.top(), "git status --porcelain; git branch --show-current"), "main");
}

#[test]
fn uncommitted_work_is_detected_and_committed() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    let state = |dirty, ahead| WorktreeState { is_dirty: dirty, is_ahead: ahead };
    assert_eq!(worktree.state("main").expect("a state"), state(false, false));
    fs::write(worktree.folder.join("ignored.o"), "x").expect("a file");
    assert_eq!(worktree.state("main").expect("a state"), state(false, false));
    worktree.collect_onto_branch("rest").expect("no changes");
    assert_eq!(sh(fixture.top(), "git rev-parse main"), sh(fixture.top(), "git rev-parse coven/x"));
    sh(&worktree.folder, "echo 4 >> a.txt; mkdir d; echo n > 'd/a b'");
    assert_eq!(worktree.state("main").expect("a state"), state(true, false));
    // A hook that rejects commits is not run.
    sh(fixture.top(), "printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit");
    worktree.collect_onto_branch("rest").expect("committed");
    assert_eq!(worktree.state("main").expect("a state"), state(false, true));
    let changes = fixture.repository.changes("main", "coven/x").expect("changes");
    let change = |path: &str| FileChange { path: path.to_owned(), added: Some(1), deleted: Some(0) };
    assert_eq!(changes, [change("a.txt"), change("d/a b")]);
    let (patch, is_all) = fixture.repository.patch("main", "coven/x", 1 << 20).expect("a patch");
    assert!(is_all && patch.contains("+4") && patch.contains("+n"), "{patch}");
    assert_eq!(fixture.repository.patch("main", "coven/x", 10).expect("part of the patch").0.len(), 10);
}

#[test]
fn all_work_of_a_deleted_worktree_is_saved_to_a_ref() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    // A commit on the branch; a detached HEAD with another commit, a change, a new file and an ignored file.
    sh(
        &worktree.folder,
        "echo c > committed; git add -A; git commit -qm one; git checkout -q --detach main; echo d > detached; \
         git add -A; git commit -qm two; echo 9 >> a.txt; echo u > untracked; echo i > i.o",
    );
    let Rescued::Under(reference) = worktree.put_away("main", "x/1").expect("the work is saved") else {
        panic!("nothing was saved")
    };
    assert_eq!(reference, "refs/coven/rescue/x/1");
    assert!(!worktree.folder.exists());
    assert_eq!(fixture.repository.commit_of("refs/heads/coven/x").expect("git runs"), None);
    let rescues = fixture.repository.rescues().expect("a list");
    assert_eq!(rescues.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["x/1"]);
    fixture.repository.restore_rescue(&rescues[0], "back").expect("a branch");
    let files = sh(fixture.top(), "git ls-tree -r --name-only back; git log --format=%s back; git show back:a.txt");
    for word in ["detached", "untracked", "one", "two", "9"] {
        assert!(files.lines().any(|line| line == word), "{word}: {files}");
    }
    assert!(!files.contains("i.o"));
    assert_eq!(sh(fixture.top(), "git show back^2:committed"), "c");
    let error = fixture.repository.restore_rescue(&rescues[0], "back").expect_err("an existing branch");
    assert!(error.to_string().contains("already"), "{error}");
    assert!(fixture.repository.restore_rescue(&rescues[0], "no good..name").is_err());
}

#[test]
fn a_worktree_without_work_is_deleted_without_a_ref() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    assert_eq!(worktree.put_away("main", "x/1").expect("the work is saved"), Rescued::Nothing);
    assert!(!worktree.folder.exists() && fixture.repository.rescues().expect("a list").is_empty());
    assert_eq!(worktree.put_away("main", "x/2").expect("a missing worktree is not an error"), Rescued::Nothing);
}

#[test]
fn a_worktree_with_a_nested_repository_is_not_deleted() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(
        &worktree.folder,
        "git init -q inner; cd inner; echo x > f; git add -A; git -c user.name=t -c user.email=t commit -qm i",
    );
    let refused = worktree.put_away("main", "x/1").expect_err("work would be lost");
    assert!(refused.to_string().contains("inner"), "{refused}");
    assert!(worktree.folder.join("inner/f").exists());
}

#[test]
fn a_folder_without_its_git_file_keeps_its_files() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo c > committed; git add -A; git commit -qm one; echo u > untracked; rm .git");
    let refused = worktree.put_away("main", "x/1").expect_err("files would be lost");
    assert!(refused.to_string().contains("move the folder"), "{refused}");
    assert!(worktree.folder.join("untracked").exists());
    // Once the files are gone, the folder is deleted and the commit saved.
    sh(&worktree.folder, "rm * .gitignore");
    assert!(matches!(worktree.put_away("main", "x/1").expect("the work is saved"), Rescued::Under(_)));
    assert!(!worktree.folder.exists());
}

#[test]
fn work_on_another_branch_is_moved_to_the_tasks_branch() {
    for leave in ["git checkout -q -b feature", "git checkout -q --detach"] {
        let fixture = fixture();
        let worktree = fixture.worktree();
        sh(&worktree.folder, &format!("{leave}; echo c > committed; git add -A; git commit -qm one; echo r > rest"));
        let feature = sh(&worktree.folder, "git rev-parse HEAD");
        worktree.collect_onto_branch("the rest").expect("a commit");
        assert_eq!(sh(&worktree.folder, "git status --porcelain; git branch --show-current"), "coven/x");
        let files = sh(fixture.top(), "git ls-tree --name-only coven/x; git log --format=%s main..coven/x");
        assert_eq!(files, ".gitignore\na.txt\ncommitted\nrest\nthe rest\none");
        if leave.contains("feature") {
            assert_eq!(sh(fixture.top(), "git rev-parse feature"), feature, "other branches are not moved");
        }
        worktree.collect_onto_branch("again").expect("no changes");
        assert_eq!(sh(fixture.top(), "git log -1 --format=%s coven/x"), "the rest");
    }
}

#[test]
fn diverged_branches_are_refused() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo c > c; git add -A; git commit -qm one; git checkout -q -b feature main; echo d > d");
    let refused = worktree.collect_onto_branch("rest").expect_err("diverged branches");
    assert!(refused.to_string().contains("coven/x") && worktree.folder.join("d").exists(), "{refused}");
    // HEAD is older and clean, so the branch already contains everything.
    sh(&worktree.folder, "rm d");
    worktree.collect_onto_branch("rest").expect("no changes");
    assert_eq!(sh(fixture.top(), "git log -1 --format=%s coven/x"), "one");
}

#[test]
fn an_unfinished_merge_is_not_committed() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo theirs > a.txt; git add -A; git commit -qm work");
    sh(fixture.top(), "echo ours > a.txt; git add -A; git commit -qm ours");
    sh(&worktree.folder, "git merge -q main || true");
    let refused = worktree.collect_onto_branch("rest").expect_err("an unfinished merge");
    assert!(refused.to_string().contains("merge is in progress"), "{refused}");
    sh(&worktree.folder, "echo both > a.txt; git add -A; git commit -qm both");
    worktree.collect_onto_branch("rest").expect("no changes");
}

#[test]
fn a_worktree_with_work_in_a_submodule_is_not_deleted() {
    let fixture = fixture();
    sh(
        &fixture.aside,
        "git init -q -b main lib; cd lib; echo l > l; git add -A; git -c user.name=t -c user.email=t commit -qm lib",
    );
    let add = format!("git -c protocol.file.allow=always submodule --quiet add {}/lib lib", fixture.aside.display());
    sh(fixture.top(), &format!("{add}; git commit -qm with-lib"));
    let worktree = fixture.worktree();
    let init = "git -c protocol.file.allow=always submodule --quiet update --init";
    sh(&worktree.folder, init);
    assert_eq!(worktree.put_away("main", "x/1").expect("a submodule without work"), Rescued::Nothing);
    for work in [
        "echo u > new",
        "git checkout -q -b feat; echo c > c; git add -A; git -c user.name=t -c user.email=t commit -qm c",
    ] {
        let worktree = fixture.worktree();
        sh(&worktree.folder, &format!("{init}; cd lib; {work}"));
        let refused = worktree.put_away("main", "x/2").expect_err("work would be lost");
        assert!(refused.to_string().contains("lib is a submodule"), "{refused}");
        assert!(worktree.folder.join("lib/l").exists());
        sh(&worktree.folder, "rm -rf lib; git checkout -q -- .gitmodules");
        worktree.put_away("main", "x/2").expect("the work is saved");
    }
}

#[test]
fn a_folder_that_points_elsewhere_is_not_a_worktree() {
    for trick in ["rm .git; mkdir .git", "rm .git; git init -q .", "cd ..; rm -rf w; ln -s ../repo w"] {
        let fixture = fixture();
        let worktree = fixture.worktree();
        sh(fixture.top(), "echo mine >> a.txt; echo new > mine.txt");
        let before = sh(fixture.top(), "git status --porcelain; git rev-parse HEAD; git branch --show-current");
        sh(&worktree.folder, &format!("echo w > w.txt; {trick}"));
        assert!(!worktree.exists(), "{trick}");
        worktree.put_away("main", "x/1").expect_err("not a worktree");
        assert_eq!(sh(fixture.top(), "git status --porcelain; git rev-parse HEAD; git branch --show-current"), before);
    }
    // A `.git` file that points to another repository.
    let (fixture, other) = (fixture(), fixture());
    let (worktree, theirs) = (fixture.worktree(), other.worktree());
    fs::copy(theirs.folder.join(".git"), worktree.folder.join(".git")).expect("a copy of the file");
    for refused in
        [worktree.collect_onto_branch("x").err(), worktree.put_away("main", "x/1").err(), worktree.state("main").err()]
    {
        assert!(refused.is_some_and(|it| it.to_string().contains("is not a worktree of")));
    }
}

#[test]
fn a_worktree_that_git_assigns_to_another_folder_is_refused() {
    for script in [
        "git config extensions.worktreeConfig true; mkdir ../empty; git config --worktree core.worktree \"$PWD/../empty\"",
        "echo \"gitdir: $(git rev-parse --path-format=absolute --git-common-dir)\" > .git",
        "echo \"gitdir: $(git -C ../other rev-parse --absolute-git-dir)\" > .git",
    ] {
        let fixture = fixture();
        let other = fixture.repository.worktree(&fixture.aside.join("other"), "coven/other");
        other.ensure("main").expect("a worktree");
        let worktree = fixture.worktree();
        sh(&worktree.folder, &format!("echo work > new.txt; {script}"));
        for refused in [
            worktree.collect_onto_branch("m").err(),
            worktree.put_away("main", "x/1").err(),
            worktree.state("main").err(),
        ] {
            assert!(refused.is_some_and(|it| it.to_string().contains("is not a worktree of")), "{script}");
        }
        assert_eq!(
            sh(fixture.top(), "git symbolic-ref HEAD; git status --porcelain; cat a.txt"),
            "refs/heads/main\n1\n2\n3"
        );
        assert_eq!(sh(&other.folder, "git symbolic-ref HEAD; git status --porcelain"), "refs/heads/coven/other");
        assert_eq!(fs::read_to_string(worktree.folder.join("new.txt")).expect("the file exists"), "work\n");
    }
}

#[test]
fn read_only_folders_are_deleted_too() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "mkdir -p deep/er; echo x > deep/er/x; chmod 500 deep/er deep");
    assert!(matches!(worktree.put_away("main", "x/1").expect("the work is saved"), Rescued::Under(_)));
    assert!(!worktree.folder.exists());
}

#[test]
fn a_branch_that_is_being_rebased_is_not_changed() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
    sh(
        fixture.top(),
        "git checkout -q -b other; echo theirs > a.txt; git commit -qam theirs; git checkout -q main; echo ours > a.txt; \
         git commit -qam ours; git rebase -q other || true",
    );
    let MergeTry::Ready(merged) = fixture.repository.try_merge("main", "coven/x", "m").expect("a merge") else {
        panic!("not ready")
    };
    let landing = fixture.repository.land("main", &merged).expect("git runs");
    assert!(
        matches!(&landing, Landing::CheckoutInTheWay { why, .. } if why.ends_with("finish or abort it")),
        "{landing:?}"
    );
    sh(fixture.top(), "git rebase --abort");
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), Landing::Landed);
}

#[test]
fn hooks_are_not_run() {
    let fixture = fixture();
    sh(
        fixture.top(),
        "for hook in post-checkout post-merge pre-commit; do printf '#!/bin/sh\\nexit 2\\n' > .git/hooks/$hook; \
         chmod +x .git/hooks/$hook; done",
    );
    let worktree = fixture.worktree();
    assert!(worktree.exists());
    fixture.repository.check_out_at(&fixture.aside.join("check"), "main").expect("a checkout");
}

#[test]
fn a_merge_is_put_onto_a_base_without_a_checkout_or_with_a_clean_one() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
    // Another branch is checked out: only the ref moves.
    sh(fixture.top(), "git checkout -q -b elsewhere; echo mine >> a.txt");
    let MergeTry::Ready(merged) = fixture.repository.try_merge("main", "coven/x", "merge it").expect("a merge") else {
        panic!("not ready")
    };
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), Landing::Landed);
    assert_eq!(
        sh(fixture.top(), "git log -1 --format=%s main; git branch --show-current; tail -1 a.txt"),
        "merge it\nelsewhere\nmine"
    );
    assert_eq!(fixture.repository.try_merge("main", "coven/x", "again").expect("git runs"), MergeTry::Nothing);
    // The base is checked out and clean: the checkout is updated.
    sh(fixture.top(), "git checkout -q -- a.txt; git checkout -q main");
    sh(&worktree.folder, "echo m > more; git add -A; git commit -qm more");
    let MergeTry::Ready(merged) = fixture.repository.try_merge("main", "coven/x", "second").expect("a merge") else {
        panic!("not ready")
    };
    // Another git process is using the checkout, and its unfinished work looks like changes.
    sh(fixture.top(), "touch .git/index.lock; echo half > a.txt");
    let busy = Landing::Busy { folder: fixture.top().to_owned() };
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), busy);
    sh(fixture.top(), "rm .git/index.lock; git checkout -q -- a.txt");
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), Landing::Landed);
    assert_eq!(sh(fixture.top(), "cat more; git status --porcelain"), "m");
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), Landing::BaseMoved);
}

#[test]
fn a_checkout_with_changes_or_a_conflicting_file_is_not_changed() {
    let ignored = "echo new > .git/info/exclude; echo mine > new";
    for (script, words) in
        [("echo mine >> a.txt", "uncommitted"), ("echo mine > new", "new would"), (ignored, "new would")]
    {
        let fixture = fixture();
        let worktree = fixture.worktree();
        sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
        sh(fixture.top(), script);
        let before =
            sh(fixture.top(), "git rev-parse main; cat a.txt; cat new 2>/dev/null || true; git status --porcelain");
        let MergeTry::Ready(merged) = fixture.repository.try_merge("main", "coven/x", "m").expect("a merge") else {
            panic!("not ready")
        };
        let landing = fixture.repository.land("main", &merged).expect("git runs");
        let Landing::CheckoutInTheWay { why, .. } = landing else { panic!("{landing:?} {words}") };
        assert!(why.contains(words), "{why}");
        let after =
            sh(fixture.top(), "git rev-parse main; cat a.txt; cat new 2>/dev/null || true; git status --porcelain");
        assert_eq!(before, after);
    }
}

#[test]
fn conflicts_are_listed_and_nothing_is_changed() {
    let fixture = fixture();
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo theirs > a.txt; echo x > 'b c'; git add -A; git commit -qm work");
    sh(fixture.top(), "echo ours > a.txt; echo y > 'b c'; git add -A; git commit -qm ours");
    let tried = fixture.repository.try_merge("main", "coven/x", "m").expect("git runs");
    assert_eq!(tried, MergeTry::Conflicts(vec!["a.txt".to_owned(), "b c".to_owned()]));
    assert_eq!(sh(fixture.top(), "cat a.txt; git status --porcelain"), "ours");
}

#[test]
fn many_worktrees_are_created_and_deleted_concurrently() {
    let fixture = fixture();
    std::thread::scope(|scope| {
        for nth in 0..12 {
            let (repository, aside) = (&fixture.repository, &fixture.aside);
            scope.spawn(move || {
                let worktree = repository.worktree(&aside.join(nth.to_string()), &format!("coven/{nth}"));
                worktree.ensure("main").expect("a worktree");
                fs::write(worktree.folder.join("new.txt"), nth.to_string()).expect("a file");
                let kept = worktree.put_away("main", &format!("{nth}/1")).expect("the work is saved");
                assert_eq!(kept, Rescued::Under(format!("refs/coven/rescue/{nth}/1")));
            });
        }
    });
    assert_eq!(fixture.repository.rescues().expect("a list").len(), 12);
    assert_eq!(sh(fixture.top(), "git worktree list | wc -l"), "1");
}
