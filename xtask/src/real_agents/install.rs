//! Installs agents with npm into the cache, each into a folder of its own, and finds what is there already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Outcome;
use super::catalogue::Agent;

/// Several agents do not start on the Node of a long-term distribution.
const NODE: &str = "node@24";

pub struct Installed {
    pub program: PathBuf,
    /// Folders that must come first in PATH.
    pub path: Vec<PathBuf>,
}

impl Installed {
    pub fn ensure(agent: &Agent, cache: &Path) -> Outcome<Self> {
        let node = install(NODE, &cache.join("node"))?;
        let modules = install(&agent.spec(), &cache.join(agent.name))?;
        let program = modules.join(agent.program);
        if !program.exists() {
            return Err(format!("{} brought no {}", agent.spec(), agent.program).into());
        }
        Ok(Self { program, path: vec![node.join("node/bin"), modules.join(".bin")] })
    }
}

/// Installs `spec` into `folder` unless it is there, and returns its `node_modules`.
fn install(spec: &str, folder: &Path) -> Outcome<PathBuf> {
    let modules = folder.join("node_modules");
    // Written last, so that an interrupted install is not taken for a whole one.
    let mark = folder.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == spec) {
        return Ok(modules);
    }
    eprintln!("  npm install {spec} into {}", folder.display());
    fs::create_dir_all(folder)?;
    let output = Command::new("npm")
        .args(["install", "--no-audit", "--no-fund", "--prefix"])
        .arg(folder)
        .arg(spec)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("npm: {error}; install Node.js with npm"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().find(|line| line.starts_with("npm error")).unwrap_or("npm gave no reason");
        return Err(format!("npm cannot install {spec}: {reason}").into());
    }
    fs::write(&mark, spec)?;
    Ok(modules)
}
