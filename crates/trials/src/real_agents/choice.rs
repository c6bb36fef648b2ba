//! Selects the subjects of the trials by name.

use super::TrialResult;
use super::install::Package;

/// A subject of the trials.
pub trait Candidate {
    fn name(&self) -> &'static str;
    /// Returns the package whose version a caller may choose.
    fn package(&mut self) -> &mut Package;
}

/// Returns the entries with these names, in this order, each as NAME or NAME@VERSION; all entries if `names` is empty.
pub fn choose<T: Candidate>(all: fn() -> Vec<T>, names: &[String]) -> TrialResult<Vec<T>> {
    if names.is_empty() {
        return Ok(all());
    }
    names.iter().map(|name| find(all(), name)).collect()
}

fn find<T: Candidate>(known: Vec<T>, wanted: &str) -> TrialResult<T> {
    let (name, version) = match wanted.split_once('@') {
        Some((name, version)) => (name, Some(version.to_owned())),
        None => (wanted, None),
    };
    let names: Vec<&str> = known.iter().map(Candidate::name).collect();
    let unknown = format!("unknown agent {name:?}; known: {}", names.join(", "));
    let mut entry = known.into_iter().find(|entry| entry.name() == name).ok_or(unknown)?;
    if version.is_some() {
        entry.package().version = version;
    }
    Ok(entry)
}
