//! Installs agents into the cache, each into a folder of its own, and finds what is there already.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_harness::trial::{self, Source};

use super::Outcome;

/// Several agents do not start on the Node of a long-term distribution.
const NODE: &str = "node@24";

/// The same with Python: the first of these that is new enough is taken.
const PYTHONS: [&str; 4] = ["python3", "python3.12", "python3.13", "python3.14"];

/// What an installer brings.
pub struct Package {
    /// Its folder in the cache.
    pub folder: &'static str,
    pub source: Source,
    /// The version to install where the newest one is not wanted.
    pub version: Option<String>,
}

impl From<trial::Package> for Package {
    fn from(known: trial::Package) -> Self {
        Self { folder: known.folder, source: known.source, version: known.version.map(str::to_owned) }
    }
}

impl Package {
    /// What the installer is asked for.
    pub fn spec(&self) -> String {
        match (self.source, &self.version) {
            (Source::Npm(name) | Source::Pip(name), None) => name.to_owned(),
            (Source::Npm(name), Some(version)) => format!("{name}@{version}"),
            (Source::Pip(name), Some(version)) => format!("{name}=={version}"),
        }
    }

    /// The version that is in the cache, as the package says it.
    pub fn version(&self, cache: &Path) -> Outcome<String> {
        let folder = cache.join(self.folder);
        match self.source {
            Source::Npm(name) => {
                let text = fs::read_to_string(folder.join("node_modules").join(name).join("package.json"))?;
                let about: serde_json::Value = serde_json::from_str(&text)?;
                Ok(about["version"].as_str().ok_or("its package tells no version")?.to_owned())
            }
            Source::Pip(name) => {
                let question = "import sys, importlib.metadata as about; print(about.version(sys.argv[1]))";
                let output = Command::new(folder.join("bin/python")).args(["-c", question, name]).output()?;
                Ok(String::from_utf8(output.stdout)?.trim().to_owned())
            }
        }
    }

    /// Installs it unless it is there; gives the folders that must come first in PATH.
    fn ensure(&self, cache: &Path) -> Outcome<Vec<PathBuf>> {
        let folder = cache.join(self.folder);
        match self.source {
            Source::Npm(_) => {
                let node = cache.join("node");
                let node_bin = node.join("node_modules/node/bin");
                once(NODE, &node, |folder| npm_install(NODE, folder, None))?;
                // npm takes an older version of a package if the newest does not want the Node that npm runs on.
                once(&self.spec(), &folder, |folder| npm_install(&self.spec(), folder, Some(&node_bin)))?;
                Ok(vec![node_bin, folder.join("node_modules/.bin")])
            }
            Source::Pip(_) => {
                once(&self.spec(), &folder, |folder| pip_install(&self.spec(), folder))?;
                Ok(vec![folder.join("bin")])
            }
        }
    }
}

pub struct Installed {
    pub program: PathBuf,
    /// Folders that must come first in PATH.
    pub path: Vec<PathBuf>,
}

impl Installed {
    /// The program lies in the first package's folder; the others are what it calls.
    pub fn ensure(packages: &[Package], program: &str, cache: &Path) -> Outcome<Self> {
        let first = packages.first().ok_or("it has no package")?;
        let mut path = Vec::new();
        for package in packages {
            path.extend(package.ensure(cache)?);
        }
        let program = cache.join(first.folder).join(program);
        if !program.exists() {
            return Err(format!("{} brought no {}", first.spec(), program.display()).into());
        }
        // Not every package has a link in the folder of programs.
        path.extend(program.parent().map(Path::to_owned));
        Ok(Self { program, path })
    }
}

/// Installs `spec` into `folder` unless it is there.
fn once(spec: &str, folder: &Path, install: impl FnOnce(&Path) -> Outcome<()>) -> Outcome<()> {
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
    install(folder)?;
    Ok(fs::write(&mark, spec)?)
}

fn npm_install(spec: &str, folder: &Path, node: Option<&Path>) -> Outcome<()> {
    let mut npm = Command::new("npm");
    if let Some(node) = node {
        let caller_path = std::env::var_os("PATH").unwrap_or_default();
        let path = [node.to_owned()].into_iter().chain(std::env::split_paths(&caller_path));
        npm.env("PATH", std::env::join_paths(path)?);
    }
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
