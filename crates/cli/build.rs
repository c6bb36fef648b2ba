//! Stamps the version with the commit it was built from, and links without position independence.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let release = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = match commit() {
        Some(commit) => format!("{release} ({commit})"),
        None => release,
    };
    println!("cargo:rustc-env=COVEN_VERSION={version}");

    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // A fixed address needs no relocation at start: every holder shares its pages, and every command starts sooner.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
        if features.split(',').any(|feature| feature == "crt-static") {
            // Or the two flags together would ask for neither.
            println!("cargo:rustc-link-arg-bins=-static");
        }
    }
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
