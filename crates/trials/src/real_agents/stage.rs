//! The environment of one trial: a home for the agent, a repository with a coven home, and the stub model.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use coven_harness::HarnessConfig;
use coven_harness::trial::{OwnHook, Prepare, Settings, Surroundings};
use coven_host::config::Config;

use super::coven::Coven;
use super::install::Installed;
use super::stub::Stub;
use super::{Bench, TrialResult};

pub struct Stage {
    pub coven: Coven,
    /// The user's settings files.
    pub settings: Vec<PathBuf>,
    /// File that the user's own hook creates, if the cast has one.
    pub marker: PathBuf,
    // Killed when the stage is dropped.
    _stub: Stub,
}

/// The agent's part of a stage.
pub struct Cast {
    /// The harness id.
    pub name: &'static str,
    pub settings: fn(&Surroundings) -> Settings,
    /// The entry in the config file, if needed.
    pub harness: Option<HarnessConfig>,
    /// Changes the settings.
    pub prepare: Option<Prepare>,
}

pub fn set(cast: Cast, installed: Installed, bench: &Bench) -> TrialResult<Stage> {
    let folder = bench.root.join(cast.name);
    let (home, project, scratch) = (folder.join("home"), folder.join("project"), folder.join("tmp"));
    let coven_home = project.join(".coven");
    fs::create_dir_all(&home)?;
    fs::create_dir_all(&scratch)?;
    fs::create_dir_all(&coven_home)?;
    make_repository(&project)?;

    let stub = Stub::start(&bench.stub, &folder)?;
    let marker = folder.join("own-hook");
    let mut settings = (cast.settings)(&Surroundings { project: &project, model_url: &stub.url });
    if let Some(prepare) = cast.prepare {
        prepare(&OwnHook { home: &home, marker: &marker }, &mut settings);
    }
    for (name, content) in &settings.files {
        write(&home.join(name), content)?;
    }
    let files = settings.files.iter().map(|(name, _)| home.join(name)).collect();
    let mut config = Config::default();
    // Pass variables in the config entry if there is one, otherwise in the environment: both ways must work.
    let outer_env = match cast.harness {
        None => settings.env,
        Some(mut harness) => {
            harness.env.extend(settings.env.into_iter().map(|(name, value)| (name.to_owned(), value)));
            config.harnesses.insert(cast.name.to_owned(), harness);
            Vec::new()
        }
    };
    write(&coven_home.join("config.json"), &serde_json::to_string_pretty(&config)?)?;

    // Inherit only PATH: other variables differ between machines and would affect the agent.
    let caller_path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(installed.path.into_iter().chain(std::env::split_paths(&caller_path)))?;
    let mut env = vec![
        ("HOME", home.into_os_string()),
        ("PATH", path),
        ("TMPDIR", scratch.into_os_string()),
        ("LANG", "C.UTF-8".into()),
        ("TERM", "xterm-256color".into()),
        ("SHELL", "/bin/sh".into()),
    ];
    env.extend(outer_env.into_iter().map(|(name, value)| (name, value.into())));
    let coven = Coven { program: bench.coven.clone(), home: coven_home, project, env };
    Ok(Stage { coven, settings: files, marker, _stub: stub })
}

fn make_repository(project: &Path) -> TrialResult<()> {
    let status = Command::new("git").args(["init", "--quiet"]).arg(project).status()?;
    if !status.success() {
        return Err(format!("git init {} failed", project.display()).into());
    }
    Ok(fs::write(project.join(".git/info/exclude"), ".coven/\n")?)
}

fn write(file: &Path, content: &str) -> TrialResult<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(file, content)?)
}
