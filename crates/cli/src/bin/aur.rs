//! `aur`: compatible name for `coven spawn`. Runs the `coven` in the same folder.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    match args.first().and_then(|word| word.to_str()) {
        Some("spawn" | "--version" | "-V") => {}
        Some("--help" | "-h") | None => {
            println!(
                "Usage: aur spawn …\n\nThe same as `coven spawn …`: conversations with an agent. See `aur spawn --help`."
            );
            return ExitCode::SUCCESS;
        }
        Some(word) => {
            eprintln!("aur: unknown command {word:?}. Use `aur spawn`, or `coven` for everything else.");
            return ExitCode::from(2);
        }
    }
    let error = Command::new(coven()).args(&args).exec();
    eprintln!("aur: cannot start coven: {error}. Install both programs in the same folder.");
    ExitCode::FAILURE
}

/// Returns the `coven` in the same folder, else the one on PATH.
fn coven() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name("coven"));
    beside.filter(|path| path.exists()).unwrap_or_else(|| "coven".into())
}
