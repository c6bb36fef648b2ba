//! Installs agents into the cache, each into a folder of its own, and finds what is there already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;
use super::catalogue::{Agent, Source};

/// Several agents do not start on the Node of a long-term distribution.
const NODE: &str = "node@24";

/// The same with Python: the first of these that is new enough is taken.
const PYTHONS: [&str; 4] = ["python3", "python3.12", "python3.13", "python3.14"];

pub struct Installed {
    pub program: PathBuf,
    /// Folders that must come first in PATH.
    pub path: Vec<PathBuf>,
}

impl Installed {
    pub fn ensure(agent: &Agent, cache: &Path) -> Outcome<Self> {
        let folder = cache.join(agent.name);
        let path = match agent.source {
            Source::Npm(_) => {
                let node = cache.join("node");
                once(NODE, &node, npm_install)?;
                once(&agent.spec(), &folder, npm_install)?;
                vec![node.join("node_modules/node/bin"), folder.join("node_modules/.bin")]
            }
            Source::Pip(_) => {
                once(&agent.spec(), &folder, pip_install)?;
                vec![folder.join("bin")]
            }
        };
        let program = folder.join(agent.program);
        if !program.exists() {
            return Err(format!("{} brought no {}", agent.spec(), agent.program).into());
        }
        Ok(Self { program, path })
    }
}

/// Installs `spec` into `folder` unless it is there.
fn once(spec: &str, folder: &Path, install: fn(&str, &Path) -> Outcome<()>) -> Outcome<()> {
    // Written last, so that an interrupted install is not taken for a whole one.
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == spec) {
        return Ok(());
    }
    eprintln!("  installing {spec} into {}", folder.display());
    fs::create_dir_all(folder)?;
    if mark.exists() {
        fs::remove_file(&mark)?;
    }
    install(spec, folder)?;
    Ok(fs::write(&mark, spec)?)
}

fn npm_install(spec: &str, folder: &Path) -> Outcome<()> {
    let mut npm = Command::new("npm");
    succeed(npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(spec))
}

fn pip_install(spec: &str, folder: &Path) -> Outcome<()> {
    let is_new_enough = |python: &&str| {
        let question = "import sys; sys.exit(sys.version_info < (3, 12))";
        Command::new(python).args(["-c", question]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let python = PYTHONS.into_iter().find(is_new_enough).ok_or("it needs Python 3.12 or newer in PATH")?;
    succeed(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    succeed(Command::new(folder.join("bin/pip")).args(["install", "--quiet", spec]))
}

fn succeed(command: &mut Command) -> Outcome<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // Warnings come before the reason, advice behind it.
    let reason: Vec<&str> = said.lines().filter(|line| line.to_lowercase().contains("error")).take(2).collect();
    Err(format!("{name} failed: {}", reason.join("; ")).into())
}
