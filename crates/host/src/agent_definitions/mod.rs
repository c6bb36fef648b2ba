//! Agent definitions: Markdown files with front matter, in the folders of the tools that own them.

mod front_matter;

use std::fs;
use std::path::{Path, PathBuf};

use coven_files::{Limit, Links, ReadError};
use coven_harness::agents::DEFINITION_FOLDERS;
use front_matter::FrontMatter;

/// A larger file is not a definition.
pub const AGENT_DEFINITION: Limit = Limit::new("an agent definition", 1 << 20);
const MAX_ID_CHARS: usize = 64;
const MAX_ROLE_CHARS: usize = 200;
const MAX_GOAL_CHARS: usize = 500;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentDefinition {
    /// Lower-case letters, digits and hyphens.
    pub id: String,
    /// Name as written in the file, by which its tool knows the agent.
    pub name: String,
    pub role: String,
    pub goal: String,
    /// Instructions for the agent: the text of the file, or else its role and goal.
    pub instructions: String,
    pub file: PathBuf,
    /// Folder of the file relative to the user's home, if it is there.
    pub folder: Option<PathBuf>,
}

impl AgentDefinition {
    /// Returns whether the file is in this folder, relative to the user's home.
    pub fn is_in(&self, folder: &str) -> bool {
        self.folder.as_deref() == Some(Path::new(folder))
    }

    /// Returns whether the name can be passed as an argument: it equals the id, apart from capital letters.
    pub fn has_plain_name(&self) -> bool {
        self.name.to_lowercase() == self.id
    }
}

/// The definitions that were found, and the files that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentDefinitions {
    /// One definition per id, sorted by folder and then by file name.
    pub agents: Vec<AgentDefinition>,
    pub skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("skipped {}: {why}", file.display())]
pub struct Skipped {
    pub file: PathBuf,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent '{name}'{}", did_you_mean(suggestions))]
pub struct UnknownAgent {
    pub name: String,
    /// Most similar ids, best first.
    pub suggestions: Vec<String>,
}

fn did_you_mean(suggestions: &[String]) -> String {
    match suggestions {
        [] => String::new(),
        all => format!("; did you mean {}?", all.join(", ")),
    }
}

/// Returns the folders of all tools, or only the configured ones; `~/` is the user's home.
pub fn folders(home: &Path, configured: Option<&[String]>) -> Vec<PathBuf> {
    match configured {
        None => DEFINITION_FOLDERS.iter().map(|folder| home.join(folder)).collect(),
        Some(paths) => paths
            .iter()
            .map(|path| match path.strip_prefix("~/") {
                Some(below) => home.join(below),
                None => PathBuf::from(path),
            })
            .collect(),
    }
}

/// Reads all definitions in these folders; ignores missing folders.
pub fn list(folders: &[PathBuf], home: &Path) -> AgentDefinitions {
    let mut found = AgentDefinitions::default();
    for folder in folders {
        for file in files(folder) {
            match read(&file, home) {
                Ok(agent) if found.agents.iter().any(|known| known.id == agent.id) => {}
                Ok(agent) => found.agents.push(agent),
                Err(why) => found.skipped.push(Skipped { file, why }),
            }
        }
    }
    found
}

impl AgentDefinitions {
    pub fn find(&self, name: &str) -> Result<&AgentDefinition, UnknownAgent> {
        let id = name.trim().trim_start_matches('@').to_lowercase();
        self.agents.iter().find(|agent| agent.id == id).ok_or_else(|| {
            let known = self.agents.iter().map(|agent| agent.id.as_str());
            UnknownAgent { name: name.to_owned(), suggestions: crate::suggest::closest(&id, known) }
        })
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_markdown = |file: &PathBuf| file.extension().is_some_and(|end| end == "md" || end == "markdown");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_markdown).collect();
    files.sort();
    files
}

fn read(file: &Path, home: &Path) -> Result<AgentDefinition, String> {
    let text = coven_files::read_text(file, AGENT_DEFINITION, Links::Follow).map_err(|error| match error {
        ReadError::Io { source, .. } => format!("cannot read it: {source}"),
        error => error.to_string(),
    })?;
    let (matter, body) = front_matter::split(&text).ok_or("no front matter between two --- lines at the start")?;
    let FrontMatter { id, name, role, title, goal, description } = front_matter::parse(matter)?;
    // Some tools use the file's name.
    let stem = || file.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = name.clone().or(id.clone()).or_else(stem).unwrap_or_default();
    let id = id.as_ref().unwrap_or(&name).trim().to_lowercase();
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if id.is_empty() || id.starts_with('-') || id.len() > MAX_ID_CHARS || !id.chars().all(is_plain) {
        return Err(format!(
            "invalid id {id:?}: use at most {MAX_ID_CHARS} letters, digits and hyphens, not starting with a hyphen"
        ));
    }
    let goal = goal.or(description).ok_or("neither goal nor description is set")?;
    let role = role.or(title).unwrap_or_else(|| role_of(&id));
    let (role, goal) = (shortened(&role, MAX_ROLE_CHARS), shortened(&goal, MAX_GOAL_CHARS));
    let instructions = match body.trim() {
        "" => format!("You are {role}. {goal}"),
        body => body.to_owned(),
    };
    let folder = file.parent().and_then(|folder| folder.strip_prefix(home).ok()).map(Path::to_owned);
    Ok(AgentDefinition { id, name: name.trim().to_owned(), role, goal, instructions, file: file.to_owned(), folder })
}

/// Derives a role from an id: `qa-test` becomes `Qa Test`.
fn role_of(id: &str) -> String {
    let words = id.split('-').filter(|word| !word.is_empty()).map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Shortens text to one line for lists. Other tools allow longer values, so a long one is not an error.
fn shortened(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(max_chars) {
        None => line,
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
    }
}

#[cfg(test)]
mod tests;
