//! Stamps the version with the commit it was built from, and links it at a fixed address, libraries included.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let release = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = match commit() {
        Some(commit) => format!("{release} ({commit})"),
        None => release,
    };
    println!("cargo:rustc-env=COVEN_VERSION={version}");

    let target = |what: &str| std::env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" {
        // A fixed address needs no relocation at start: every holder shares its pages, and every command starts sooner.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
        if is_static || (target("ENV") == "gnu" && link_libraries_in()) {
            println!("cargo:rustc-link-arg-bins=-static");
        }
    }
}

/// A function that the standard library uses if it is linked; the linker takes it from the archive only on request. Without
/// it, starting a process in another folder uses fork, which copies the daemon's page tables.
const WANTED_BY_STD: &str = "posix_spawn_file_actions_addchdir_np";

/// Links the static C libraries in place of the shared ones. The flag for this, `crt-static`, would also apply to
/// procedural macros, which cannot be built with it.
fn link_libraries_in() -> bool {
    const ASKED_FOR: [(&str, &[&str]); 7] = [
        ("gcc_s", &["gcc_eh", "gcc", "c"]),
        ("c", &["c", "gcc_eh", "gcc"]),
        ("m", &["m"]),
        ("pthread", &["pthread"]),
        ("rt", &["rt"]),
        ("dl", &["dl"]),
        ("util", &["util"]),
    ];
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    for (name, archives) in ASKED_FOR {
        let found: Option<Vec<String>> = archives.iter().map(|archive| archive_of(archive)).collect();
        // Some systems ship no archive of their C library: then it is linked as usual.
        let Some(found) = found else { return false };
        let script = format!("GROUP ( {} )\n", found.join(" "));
        std::fs::write(out.join(format!("lib{name}.so")), script).expect("the build's own folder is writable");
    }
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Wl,--undefined={WANTED_BY_STD}");
    true
}

/// Where the C compiler keeps an archive.
fn archive_of(name: &str) -> Option<String> {
    let file = format!("lib{name}.a");
    let output = Command::new("cc").arg(format!("-print-file-name={file}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    // A name without a folder means that it has none.
    Path::new(&path).is_absolute().then_some(path)
}

/// The short hash of the commit, if this is a checkout and git is there.
fn commit() -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(&root).args(args).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        (output.status.success() && !text.is_empty()).then_some(text)
    };
    // The log of HEAD grows with every commit, checkout and reset.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        let log = root.join(log);
        if log.exists() {
            println!("cargo:rerun-if-changed={}", log.display());
        }
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}
