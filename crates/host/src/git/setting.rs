//! Classifies the settings of a repository's own config. A setting that is not listed here needs the user's agreement.

/// Effect of a setting in the git commands that coven runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// None, or no more than a commit can have. Includes the settings that coven disables in every command.
    None,
    /// Names a program. An empty value disables it.
    Program,
    /// Adds options to a command. An empty value disables it.
    Options,
    /// Loads another file, whose settings are classified as well.
    Include,
    /// Affects a fetch. Coven does not fetch before the user agrees.
    Fetch,
    /// Unknown to coven, so it may run anything in any command.
    Unknown,
}

/// Sections without a setting that runs, writes or fetches anything in the commands that coven runs. Those from
/// `branchless` on belong to other tools; git does not read them.
const HARMLESS_SECTIONS: &str = "\
    add advice alias am apply attr author bisect blame checkout clean clone color column commit commitgraph committer \
    completion diff difftool feature format fsck gpg grep gui help i18n index init interactive log mailinfo mailmap \
    maintenance mergetool notes pack pager pretty protocol pull push rebase receive remotes repack rerere safe sendemail \
    showbranch sparse splitindex ssh stash status submodule tag transfer uploadarchive uploadpack url user versionsort \
    worktree branchless cola forge gh ghstack git-p4 git-town gitbutler gitflow github gitk gitlab graphite hub magit \
    spice stgit svn svn-remote vscode";

/// Harmless settings of `core`. Coven disables hooks, pager, editor and fsmonitor in every command, and refuses a
/// repository whose working tree is in another folder.
const HARMLESS_CORE: &str = "\
    abbrev alternaterefsprefixes attributesfile autocrlf bare bigfilethreshold checkroundtripencoding checkstat \
    commentchar commentstring commitgraph compression createobject deltabasecachelimit disambiguate editor eol \
    excludesfile filemode filesreflocktimeout fscache fsmonitor fsmonitorhookversion fsync fsyncmethod fsyncobjectfiles \
    hidedotfiles hookspath ignorecase ignorestat logallrefupdates longpaths loosecompression maxtreedepth multipackindex \
    notesref packedgitlimit packedgitwindowsize packedrefstimeout pager precomposeunicode preloadindex protecthfs \
    protectntfs quotepath repositoryformatversion safecrlf sharedrepository sparsecheckout sparsecheckoutcone splitindex \
    symlinks trustctime untrackedcache usereplacerefs warnambiguousrefs whitespace worktree";

const HARMLESS_EXTENSIONS: &str = "\
    compatobjectformat noop noop-v1 objectformat partialclone preciousobjects relativeworktrees worktreeconfig";

const HARMLESS_REMOTE: &str = "\
    fetch followremotehead gh-resolved lfspushurl lfsurl mirror partialclonefilter promisor prune prunetags push \
    pushdefault pushurl serveroption skipdefaultupdate skipfetchall tagopt url";

const HARMLESS_HTTP: &str = "\
    extraheader lowspeedlimit lowspeedtime maxrequests minsessions postbuffer receivepack uploadpack useragent version";

/// Git LFS reads these settings when a filter of the user's own config runs. Its other settings name programs or
/// folders.
const HARMLESS_LFS: &str = "\
    access activitytimeout allowincompletepush basictransfersonly concurrenttransfers contenttype dialtimeout fetchexclude \
    fetchinclude fetchrecentalways fetchrecentcommitsdays fetchrecentrefsdays fetchrecentremoterefs keepalive \
    lockignoredfiles locksverify maxretries maxretrydelay pruneoffsetdays pruneremotetocheck pruneverifyremotealways \
    pushurl repositoryformatversion setlockablereadonly skipdownloaderrors tlstimeout tustransfers url";

/// Classifies a setting by its key, as `git config --list` prints it, and its values.
pub(super) fn effect_of<'a>(key: &str, mut values: impl Iterator<Item = &'a [u8]>) -> Effect {
    let Some((section, rest)) = key.split_once('.') else { return Effect::Unknown };
    let (subsection, name) = rest.rsplit_once('.').map_or((None, rest), |(subsection, name)| (Some(subsection), name));
    let harmless_or = |names: &str, other: Effect| if lists(names, name) { Effect::None } else { other };
    match (section, name) {
        ("filter", "clean" | "smudge" | "process") | ("merge", "driver") => Effect::Program,
        ("filter", "required") | ("merge", _) => Effect::None,
        ("core", "sshcommand" | "gitproxy" | "askpass" | "alternaterefscommand") => Effect::Program,
        ("core", _) => harmless_or(HARMLESS_CORE, Effect::Unknown),
        ("credential", "helper") => Effect::Program,
        ("credential", _) => harmless_or("provider usehttppath username", Effect::Fetch),
        ("remote", "uploadpack" | "receivepack" | "vcs") => Effect::Program,
        ("remote", _) => harmless_or(HARMLESS_REMOTE, Effect::Fetch),
        ("http", _) => harmless_or(HARMLESS_HTTP, Effect::Fetch),
        ("fetch", "bundleuri") => Effect::Fetch,
        ("gc", "recentobjectshook") => Effect::Program,
        ("fetch" | "gc", _) => Effect::None,
        ("branch", "mergeoptions") => Effect::Options,
        ("branch", _) => Effect::None,
        // Other values can name any folder on the disk for the refs.
        ("extensions", "refstorage") if values.all(|it| matches!(it, b"files" | b"reftable")) => Effect::None,
        ("extensions", _) => harmless_or(HARMLESS_EXTENSIONS, Effect::Unknown),
        ("lfs", _) => harmless_or(HARMLESS_LFS, Effect::Unknown),
        ("include", "path") if subsection.is_none() => Effect::Include,
        ("includeif", "path") if subsection.is_some() => Effect::Include,
        (section, _) if lists(HARMLESS_SECTIONS, section) => Effect::None,
        _ => Effect::Unknown,
    }
}

fn lists(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|it| it == name)
}

/// Returns whether git fetches from this address over HTTPS or SSH.
pub(super) fn is_secure_address(url: &[u8]) -> bool {
    let Ok(url) = str::from_utf8(url) else { return false };
    match url.split_once(':') {
        Some((scheme, rest)) if rest.starts_with("//") => {
            matches!(scheme, "https" | "ssh" | "git+ssh" | "ssh+git")
        }
        // `git@host:path` is SSH; `helper::address` and `./a:b` are not.
        Some((host, rest)) => !host.contains('/') && !rest.starts_with(':'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(key: &str) -> Effect {
        effect_of(key, [&b"value"[..]].into_iter())
    }

    #[test]
    fn settings_of_ordinary_clones_are_harmless() {
        for key in [
            "core.repositoryformatversion",
            "core.hookspath",
            "core.sparsecheckoutcone",
            "extensions.worktreeconfig",
            "extensions.partialclone",
            "remote.origin.url",
            "remote.origin.partialclonefilter",
            "remote.a.b.fetch",
            "branch.v1.2.merge",
            "branch.main.vscode-merge-base",
            "submodule.lib/x.url",
            "user.email",
            "lfs.repositoryformatversion",
            "lfs.https://example.org/a.git/info/lfs.access",
            "filter.lfs.required",
            "http.https://github.com/.extraheader",
            "gc.auto",
        ] {
            assert_eq!(effect(key), Effect::None, "{key}");
        }
    }

    #[test]
    fn settings_that_run_open_or_load_something_are_classified() {
        use Effect::{Fetch, Include, Options, Program, Unknown};
        for (key, expected) in [
            ("filter.x.y.process", Program),
            ("merge.x.driver", Program),
            ("credential.helper", Program),
            ("credential.https://a.b.helper", Program),
            ("gc.recentobjectshook", Program),
            ("core.alternaterefscommand", Program),
            ("branch.main.mergeoptions", Options),
            ("include.path", Include),
            ("includeif.gitdir:**/worktrees/**.path", Include),
            ("http.cookiefile", Fetch),
            ("http.https://a.b/.sslverify", Fetch),
            ("remote.origin.proxy", Fetch),
            ("hook.x.command", Unknown),
            ("lfs.extension.x.smudge", Unknown),
            ("lfs.customtransfer.x.path", Unknown),
            ("core.virtualfilesystem", Unknown),
            ("extensions.refstorage", Unknown),
            ("extensions.new", Unknown),
        ] {
            assert_eq!(effect(key), expected, "{key}");
        }
        assert_eq!(effect_of("extensions.refstorage", [&b"reftable"[..]].into_iter()), Effect::None);
    }

    #[test]
    fn only_https_and_ssh_are_secure() {
        for url in ["https://a.b/c", "ssh://git@a/b", "git@a.b:c/d.git", "a:b"] {
            assert!(is_secure_address(url.as_bytes()), "{url}");
        }
        for url in ["http://a/b", "git://a/b", "file:///a", "/a/b", "../a", "./a:b", "ext::sh -c x", "a", "HTTPS://a/b"]
        {
            assert!(!is_secure_address(url.as_bytes()), "{url}");
        }
    }
}
