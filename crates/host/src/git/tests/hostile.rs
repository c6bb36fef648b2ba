//! Repositories with an attacker's config, files or folders, as an unpacked archive can contain.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::trust::TrustStore;

/// Runs the named test again in a separate process, with a `PATH` and a current folder chosen by the attacker.
fn again(test: &str, folder: &Path, path: &str) {
    let mut command = Command::new(env::current_exe().expect("the path of this program"));
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
    let fixture = fixture();
    sh(fixture.top(), "printf '#!/bin/sh\\ntouch was-run\\nexit 1\\n' > git; chmod +x git");
    let path = env::var("PATH").expect("a path");
    for relative in [".", "", "../repo"] {
        again("a_git_in_the_current_folder_does_not_run", fixture.top(), &format!("{relative}:{path}"));
        assert!(!fixture.top().join("was-run").exists(), "{relative:?}");
    }
}

/// Creates a program that creates a mark file and copies its input; returns the paths of both.
fn marking(fixture: &Fixture, name: &str) -> (String, PathBuf) {
    let (program, mark) = (fixture.aside.join(name), fixture.aside.join(format!("{name}-was-run")));
    sh(
        &fixture.aside,
        &format!("printf '#!/bin/sh\\ntouch {}\\nexec cat\\n' > {name}; chmod +x {name}", mark.display()),
    );
    (program.display().to_string(), mark)
}

#[test]
fn no_call_starts_maintenance() {
    let fixture = fixture();
    let (hook, mark) = marking(&fixture, "hook");
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
    let MergeTry::Ready(merged) = fixture.repository.try_merge("main", "coven/x", "m").expect("a merge") else {
        panic!("not ready")
    };
    // Enough loose objects for `gc.auto=1`, one of them unreachable.
    let lost = sh(
        fixture.top(),
        &format!(
            "git config gc.recentObjectsHook {hook}; git config gc.auto 1; git config gc.autoDetach false; \
             git config maintenance.autoDetach false; git config gc.pruneExpire now; \
             for i in $(seq 600); do echo $i > .git/$i; done; git hash-object -w .git/[0-9]* > /dev/null; \
             git hash-object -w .git/1"
        ),
    );
    assert_eq!(fixture.repository.land("main", &merged).expect("git runs"), Landing::Landed);
    assert!(!mark.exists());
    sh(fixture.top(), &format!("git cat-file -e {lost}"));
}

#[test]
fn a_diff_ignores_the_config_of_a_submodule() {
    let fixture = fixture();
    let (external, mark) = marking(&fixture, "external");
    let commit = "git -c user.name=t -c user.email=t commit -qm";
    sh(
        fixture.top(),
        &format!(
            "git init -q lib; cd lib; echo 1 > l; git add -A; {commit} one; cd ..; git add lib 2> /dev/null; {commit} lib; \
             git checkout -q -b other; cd lib; echo 2 > l; {commit} two -a; git config diff.external {external}; cd ..; \
             git add lib; {commit} more; git config diff.submodule diff"
        ),
    );
    let repository = Repository::of(fixture.top()).expect("a repository");
    let (patch, _) = repository.patch("main", "other", 1 << 20).expect("a patch");
    assert!(patch.contains("Subproject commit") && !mark.exists(), "{patch}");
}

#[test]
fn a_repository_inside_the_home_does_not_hide_tracked_files() {
    for inner in [
        // A clone can contain a bare repository among the tracked files.
        "mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; \
         printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\n' > config",
        // An archive can contain a repository.
        "git init -q .",
    ] {
        let fixture = fixture();
        let home = fixture.top().join(".coven");
        fs::create_dir(&home).expect("a folder");
        sh(&home, "echo {} > config.json; git add -f config.json; git commit -qm settings; echo {} > other.json");
        sh(&home, inner);
        assert!(tracked(&home, &["config.json"]).has("config.json"), "{inner}");
    }
    let fixture = fixture();
    let home = fixture.top().join(".coven");
    fs::create_dir_all(home.join("grimoires")).expect("a folder");
    sh(&home, "echo {} > config.json; touch grimoires/a.yaml; git add -f grimoires; git commit -qm workflow");
    let tracked_files = tracked(&home, &["config.json", "grimoires"]);
    assert!(tracked_files.has("grimoires/a.yaml") && !tracked_files.has("config.json"));
    // A home that is itself a repository, outside of any other.
    let alone = fixture.aside.join("alone");
    fs::create_dir(&alone).expect("a folder");
    sh(&alone, "git init -q; echo {} > config.json");
    assert!(!tracked(&alone, &["config.json"]).has("config.json"));
    sh(&alone, "git add config.json");
    assert!(tracked(&alone, &["config.json"]).has("config.json"));
}

/// Reads the config of the repository again.
fn again_of(fixture: &Fixture) -> Repository {
    Repository::of(fixture.top()).expect("a repository")
}

/// Like `again_of`, after the user agreed to everything in the config.
fn trusted(fixture: &Fixture) -> Repository {
    let repository = again_of(fixture);
    let store = TrustStore::at(&fixture.aside.join("state"));
    store.agree(fixture.top(), &repository.guard.clone().untrusted_parts()).expect("a writable disk");
    let guard = Guard::with_trust(fixture.top(), &repository.folders, Some(&store)).expect("a config");
    Repository { guard, ..repository }
}

fn untrusted_keys<T: std::fmt::Debug>(result: Result<T, GitError>) -> String {
    match result {
        Err(GitError::Untrusted { keys, .. }) => keys,
        other => panic!("{other:?}"),
    }
}

/// Creates a config file that filters every file through `program`; returns its path.
fn filters(fixture: &Fixture, program: &str) -> String {
    let file = fixture.aside.join("filters");
    fs::write(&file, format!("[filter \"x\"]\nclean = {program}\nsmudge = {program}\n")).expect("a writable disk");
    sh(fixture.top(), "echo '* filter=x' > .gitattributes; git add -A; git commit -qm attributes");
    file.display().to_string()
}

#[test]
fn an_optional_include_is_read_under_both_names() {
    let fixture = fixture();
    let (filter, _) = marking(&fixture, "filter");
    sh(fixture.top(), "git config include.path ':(optional)more'");
    for name in [":(optional)more", "more"] {
        sh(fixture.top(), &format!("git config --file '.git/{name}' filter.x.clean '{filter}'"));
        let keys = untrusted_keys(again_of(&fixture).worktree(&fixture.aside.join("new"), "coven/new").ensure("main"));
        assert_eq!(keys, "filter.x.clean, include.path", "{name}");
        fs::remove_file(fixture.top().join(".git").join(name)).expect("the file exists");
    }
}

#[test]
fn conditional_includes_are_read_even_if_their_condition_is_false() {
    for condition in ["gitdir:**/worktrees/**", "onbranch:coven/**", "hasconfig:remote.*.url:https://a/**"] {
        let fixture = fixture();
        let (filter, mark) = marking(&fixture, "filter");
        let file = filters(&fixture, &filter);
        // A nested include, and a relative path.
        sh(fixture.top(), &format!("git config 'includeIf.{condition}.path' ../../aside/first"));
        sh(&fixture.aside, &format!("git config --file first include.path {file}"));
        let before = fixture.worktree();
        sh(&before.folder, "printf '9\\n2\\n3\\n' > a.txt");
        fs::remove_file(&mark).ok();

        let repository = again_of(&fixture);
        let new = repository.worktree(&fixture.aside.join("new"), "coven/new");
        let refused = new.ensure("main");
        assert!(!mark.exists(), "{condition}");
        let keys = untrusted_keys(refused);
        assert_eq!(keys, format!("filter.x.clean, filter.x.smudge, include.path, includeif.{condition}.path"));
        let worktree = repository.worktree(&before.folder, &before.branch);
        assert!(worktree.state("main").expect("a state").is_dirty);
        untrusted_keys(worktree.collect_onto_branch("rest"));
        assert!(!mark.exists(), "{condition}");

        let new = trusted(&fixture).worktree(&fixture.aside.join("new"), "coven/new");
        new.ensure("main").expect("a worktree");
        assert_eq!(mark.exists(), !condition.starts_with("hasconfig"), "{condition}");
        // The included file changes: the agreement covers only its old content.
        sh(&fixture.aside, "git config --file filters merge.y.driver false");
        let guard =
            Guard::with_trust(fixture.top(), &repository.folders, Some(&TrustStore::at(&fixture.aside.join("state"))));
        assert!(untrusted_keys(guard.expect("a config").ensure_trusted(fixture.top())).contains("merge.y.driver"));
    }
}

#[test]
fn an_include_that_cannot_be_resolved_is_refused() {
    for (path, words) in
        [("~other/x", "absolute path"), ("../pipe", "regular file"), ("../.git/config", "more than 64")]
    {
        let fixture = fixture();
        sh(fixture.top(), &format!("mkfifo pipe; git config includeIf.onbranch:other.path '{path}'"));
        let refused =
            Repository::of(fixture.top()).and_then(|it| it.ensure_trusted()).expect_err("an unresolvable include");
        assert!(format!("{refused:?}").contains(words), "{refused:?}");
    }
}

#[test]
fn the_config_of_every_worktree_is_read() {
    let fixture = fixture();
    let (filter, mark) = marking(&fixture, "filter");
    filters(&fixture, &filter);
    let worktree = fixture.worktree();
    sh(&worktree.folder, "echo n > new; git add -A; git commit -qm work");
    // The base is checked out in another worktree, which has its own config.
    let other = fixture.aside.join("other");
    sh(
        fixture.top(),
        &format!(
            "git config extensions.worktreeConfig true; git checkout -q --detach; git worktree add -q {0} main; cd {0}; \
             git config --worktree filter.x.clean {filter}; git config --worktree filter.x.smudge {filter}; \
             printf '1\\n2\\n4\\n' > a.txt",
            other.display()
        ),
    );
    let repository = again_of(&fixture);
    assert!(matches!(repository.obstacle("main"), Ok(Some(Landing::CheckoutInTheWay { .. }))));
    assert!(!mark.exists());
    assert_eq!(untrusted_keys(repository.try_merge("main", "coven/x", "m")), "filter.x.clean, filter.x.smudge");
    let merged = Merged { commit: String::new(), onto: String::new() };
    untrusted_keys(repository.land("main", &merged));
    assert!(!mark.exists());
}

#[test]
fn a_worktree_that_is_another_repository_is_refused() {
    let fixture = fixture();
    let (filter, mark) = marking(&fixture, "filter");
    // According to the list of worktrees, the base is checked out in a folder that is a repository with its own config.
    sh(
        fixture.top(),
        &format!(
            "git init -q -b main inner; cd inner; echo '* filter=x' > .gitattributes; echo 1 > f; git add -A; \
             git -c user.name=t -c user.email=t commit -qm i; git config filter.x.clean {filter}; echo 2 > f; cd ..; \
             git checkout -q --detach; mkdir -p .git/worktrees/w; cd .git/worktrees/w; echo ../.. > commondir; \
             echo 'ref: refs/heads/main' > HEAD; echo $PWD/../../../inner/.git > gitdir"
        ),
    );
    let refused = again_of(&fixture).obstacle("main").expect_err("another repository");
    assert!(refused.to_string().contains("is not a worktree of") && !mark.exists(), "{refused}");
}

/// Replaces the repository by a partial clone of it without blobs.
fn partial_clone(fixture: &Fixture, url: Option<&str>) {
    let (top, url) = (fixture.top().display(), url.unwrap_or_default());
    sh(
        &fixture.aside,
        &format!(
            "mv {top} origin; git -C origin config uploadpack.allowFilter true; \
             git -C origin config uploadpack.allowAnySHA1InWant true; \
             git clone -q --no-checkout --filter=blob:none file://$PWD/origin {top}; cd {top}; \
             git config user.name t; git config user.email t@t; [ -z '{url}' ] || git config remote.origin.url '{url}'"
        ),
    );
}

fn environment(command: &Command, name: &str) -> Option<String> {
    let found = command.get_envs().find(|(key, _)| *key == name)?;
    found.1.map(|value| value.to_string_lossy().into_owned())
}

#[test]
fn an_ordinary_partial_clone_fetches_without_agreement() {
    for url in ["https://example.org/a.git", "git@example.org:a.git"] {
        let fixture = fixture();
        partial_clone(&fixture, Some(url));
        let repository = again_of(&fixture);
        repository.ensure_trusted().expect("no agreement needed");
        let command = repository.git(fixture.top()).expect("a command");
        assert_eq!(environment(&command, "GIT_ALLOW_PROTOCOL").as_deref(), Some("https:ssh"));
        assert_eq!(environment(&command, "GIT_NO_LAZY_FETCH"), None);
    }
    // A clone of a local folder needs agreement, because a fetch runs git there.
    let fixture = fixture();
    partial_clone(&fixture, None);
    let worktree = again_of(&fixture).worktree(&fixture.aside.join("w"), "coven/x");
    assert_eq!(untrusted_keys(worktree.ensure("main")), "remote.origin.url");
    let worktree = trusted(&fixture).worktree(&fixture.aside.join("w"), "coven/x");
    worktree.ensure("main").expect("a worktree with fetched files");
    assert_eq!(sh(&worktree.folder, "cat a.txt"), "1\n2\n3");
    // A full clone never fetches.
    let full = super::fixture();
    let command = full.repository.git(full.top()).expect("a command");
    assert_eq!(environment(&command, "GIT_ALLOW_PROTOCOL").as_deref(), Some("none"));
}

#[test]
fn a_fetch_does_not_run_the_alternate_refs_command() {
    let fixture = fixture();
    let (list, mark) = marking(&fixture, "list");
    partial_clone(&fixture, None);
    sh(
        fixture.top(),
        &format!(
            "git init -q ../aside/more; echo $PWD/../aside/more/.git/objects > .git/objects/info/alternates; \
             git config core.alternateRefsCommand {list}"
        ),
    );
    let repository = again_of(&fixture);
    let worktree = repository.worktree(&fixture.aside.join("w"), "coven/x");
    let refused = worktree.ensure("main");
    assert!(!mark.exists());
    assert!(untrusted_keys(refused).contains("core.alternaterefscommand"));
}

/// Responds to every request with an error, until one for `/end`. Returns the number of requests before that.
fn count_requests(listener: &TcpListener) -> usize {
    for (count, stream) in listener.incoming().flatten().enumerate() {
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let first = lines.next().unwrap_or_default();
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let _ = (&stream).write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        if first.contains("/end") {
            return count;
        }
    }
    unreachable!("incoming() never ends")
}

#[test]
fn a_config_that_saves_cookies_prevents_fetching() {
    let fixture = fixture();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    partial_clone(&fixture, Some(&format!("http://{address}/a.git")));
    sh(fixture.top(), "git config http.cookieFile ~/.bashrc; git config http.saveCookies true");
    let (refused, requests) = std::thread::scope(|scope| {
        let server = scope.spawn(|| count_requests(&listener));
        let refused =
            Repository::of(fixture.top()).and_then(|it| it.worktree(&fixture.aside.join("w"), "x").ensure("main"));
        let end = TcpStream::connect(address).and_then(|mut it| it.write_all(b"GET /end HTTP/1.1\r\n\r\n"));
        end.expect("the server listens");
        (refused, server.join().expect("a count"))
    });
    assert_eq!(requests, 0);
    assert_eq!(untrusted_keys(refused), "http.cookiefile, http.savecookies, remote.origin.url");
    // Cookies are not saved even if the user agreed.
    assert_eq!(trusted(&fixture).run(["config", "http.saveCookies"]).expect("a value"), "false\n");
}

#[test]
fn agreement_covers_all_values_of_a_key() {
    let fixture = fixture();
    sh(fixture.top(), "git config credential.helper one; git config --add credential.helper two");
    let untrusted = again_of(&fixture).guard.untrusted_parts();
    let shown: Vec<_> = untrusted.iter().map(|part| (part.key.as_str(), part.effect.as_str())).collect();
    assert_eq!(shown, [("credential.helper", "runs one, two")]);
    trusted(&fixture).ensure_trusted().expect("the user agreed");
    let store = TrustStore::at(&fixture.aside.join("state"));
    sh(fixture.top(), "git config --add credential.helper three");
    let guard = Guard::with_trust(fixture.top(), &fixture.repository.folders, Some(&store)).expect("a config");
    assert_eq!(untrusted_keys(guard.ensure_trusted(fixture.top())), "credential.helper");
}

#[test]
fn a_setting_with_a_name_that_is_not_utf_8_is_refused() {
    let fixture = fixture();
    let (filter, mark) = marking(&fixture, "filter");
    sh(
        fixture.top(),
        "printf '[branch \"\\377\"]\\nremote = .\\n' >> .git/config; printf '* filter=\\377\\n' > .git/info/attributes",
    );
    again_of(&fixture).ensure_trusted().expect("a branch name is harmless");
    sh(
        fixture.top(),
        &format!("printf '[filter \"\\377\"]\\nclean = {filter}\\n' >> .git/config; printf '1\\n2\\n4\\n' > a.txt"),
    );
    let refused = Repository::of(fixture.top())
        .and_then(|it| it.obstacle("main"))
        .expect_err("a setting that cannot be disabled");
    assert!(refused.to_string().contains("UTF-8") && !mark.exists(), "{refused}");
}

#[test]
fn an_unknown_setting_needs_agreement_for_every_command() {
    let fixture = fixture();
    sh(fixture.top(), "git config hook.x.command evil; git config foo.bar 1");
    let keys = untrusted_keys(again_of(&fixture).changes("main", "main"));
    assert_eq!(keys, "foo.bar, hook.x.command");
    assert!(trusted(&fixture).changes("main", "main").expect("the user agreed").is_empty());
}

#[test]
fn ordinary_repositories_need_no_agreement() {
    let fixture = fixture();
    sh(
        fixture.top(),
        "git remote add origin https://example.org/a.git; git config branch.main.remote origin; \
         git config core.hooksPath .husky; git config lfs.repositoryformatversion 0; git config pull.rebase true; \
         git config submodule.lib.url https://example.org/lib.git; git sparse-checkout init --cone; \
         git config --list --show-scope | grep -q '^worktree'",
    );
    let worktree = again_of(&fixture).worktree(&fixture.aside.join("w"), "coven/x");
    worktree.ensure("main").expect("a worktree");
    sh(&worktree.folder, "echo n > new");
    worktree.collect_onto_branch("work").expect("a commit");
    let MergeTry::Ready(merged) = again_of(&fixture).try_merge("main", "coven/x", "m").expect("a merge") else {
        panic!("not ready")
    };
    assert_eq!(again_of(&fixture).land("main", &merged).expect("git runs"), Landing::Landed);
}
