//! Installs agents into the cache, each into a separate folder, unless they are already installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use coven_harness::trial::{self, Source};

use super::TrialResult;

/// Several agents do not start on the Node version of a long-term-support distribution.
const NODE: &str = "node@24";

/// Python commands to try; the first one that is new enough is used.
const PYTHONS: [&str; 4] = ["python3", "python3.12", "python3.13", "python3.14"];

/// An npm or pip package.
pub struct Package {
    /// The package's folder in the cache.
    pub folder: &'static str,
    pub source: Source,
    /// The version to install; the newest if `None`.
    pub version: Option<String>,
}

impl From<trial::Package> for Package {
    fn from(known: trial::Package) -> Self {
        Self { folder: known.folder, source: known.source, version: known.version.map(str::to_owned) }
    }
}

impl Package {
    /// Returns the package specification for the installer.
    pub fn spec(&self) -> String {
        match (self.source, &self.version) {
            (Source::Npm(name) | Source::Pip(name), None) => name.to_owned(),
            (Source::Npm(name), Some(version)) => format!("{name}@{version}"),
            (Source::Pip(name), Some(version)) => format!("{name}=={version}"),
        }
    }

    /// Returns the version in the cache.
    pub fn version(&self, cache: &Path) -> TrialResult<String> {
        let folder = cache.join(self.folder);
        match self.source {
            Source::Npm(name) => {
                let text = fs::read_to_string(folder.join("node_modules").join(name).join("package.json"))?;
                let about: serde_json::Value = serde_json::from_str(&text)?;
                Ok(about["version"].as_str().ok_or("package.json has no version")?.to_owned())
            }
            Source::Pip(name) => {
                let question = "import sys, importlib.metadata as about; print(about.version(sys.argv[1]))";
                let output = Command::new(folder.join("bin/python")).args(["-c", question, name]).output()?;
                Ok(String::from_utf8(output.stdout)?.trim().to_owned())
            }
        }
    }

    /// Installs the package if needed. Returns the folders that must come first in PATH.
    fn ensure(&self, cache: &Path) -> TrialResult<Vec<PathBuf>> {
        let folder = cache.join(self.folder);
        match self.source {
            Source::Npm(_) => {
                let node = cache.join("node");
                let node_bin = node.join("node_modules/node/bin");
                once(NODE, &node, |folder| npm_install(NODE, folder, None))?;
                // npm installs an older version of a package if the newest one does not support npm's own Node.
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
    /// Installs the packages. The first one contains the program; the others are its dependencies.
    pub fn ensure(packages: &[Package], program: &str, cache: &Path) -> TrialResult<Self> {
        let first = packages.first().ok_or("the agent has no package")?;
        let mut path = Vec::new();
        for package in packages {
            path.extend(package.ensure(cache)?);
        }
        let program = cache.join(first.folder).join(program);
        if !program.exists() {
            return Err(format!("package {} does not contain {}", first.spec(), program.display()).into());
        }
        // Not every package installs a link in the folder of programs.
        path.extend(program.parent().map(Path::to_owned));
        Ok(Self { program, path })
    }
}

/// Installs `spec` into `folder` unless it is already installed.
fn once(spec: &str, folder: &Path, install: impl FnOnce(&Path) -> TrialResult<()>) -> TrialResult<()> {
    // Written last, so that an interrupted installation does not count as complete.
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

fn npm_install(spec: &str, folder: &Path, node: Option<&Path>) -> TrialResult<()> {
    let mut npm = Command::new("npm");
    if let Some(node) = node {
        let caller_path = std::env::var_os("PATH").unwrap_or_default();
        let path = [node.to_owned()].into_iter().chain(std::env::split_paths(&caller_path));
        npm.env("PATH", std::env::join_paths(path)?);
    }
    succeed(npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(folder).arg(spec))
}

fn pip_install(spec: &str, folder: &Path) -> TrialResult<()> {
    let is_new_enough = |python: &&str| {
        let question = "import sys; sys.exit(sys.version_info < (3, 12))";
        Command::new(python).args(["-c", question]).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let python = PYTHONS.into_iter().find(is_new_enough).ok_or("Python 3.12 or newer must be in PATH")?;
    succeed(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    succeed(Command::new(folder.join("bin/pip")).args(["install", "--quiet", spec]))
}

fn succeed(command: &mut Command) -> TrialResult<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("cannot start {name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The reason is between warnings and advice.
    let reason: Vec<&str> = said.lines().filter(|line| line.to_lowercase().contains("error")).take(2).collect();
    Err(format!("{name} failed: {}", reason.join("; ")).into())
}
