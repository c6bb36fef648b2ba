//! What was decided about a set and not sent: kept in a file, so that leaving, a closed window or a crash costs nothing.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use coven_domain::question::Question;
use coven_files::{Limit, Links};
use serde::{Deserialize, Serialize};

use super::reply::Reply;

/// Five answers in words.
pub const DRAFT: Limit = Limit::new("the draft of an answer", 4 << 20);
/// A draft of a set that is not in this folder may belong to another one; after so long nobody comes back to it.
const OLDEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Draft {
    /// One for each question.
    pub replies: Vec<Reply>,
    /// Why the set is to be rejected, as far as it was typed.
    pub reason: String,
    /// The question that was looked at.
    pub question: usize,
}

impl Draft {
    /// The draft as far as it fits the questions.
    pub fn fitted(mut self, questions: &[Question]) -> Self {
        self.replies.resize_with(questions.len(), Reply::default);
        for (reply, question) in self.replies.iter_mut().zip(questions) {
            if !reply.fits(question) {
                *reply = Reply::default();
            }
        }
        self.question = self.question.min(questions.len());
        self
    }

    fn is_blank(&self) -> bool {
        self.reason.is_empty() && self.replies.iter().all(Reply::is_blank)
    }
}

/// The folder of all drafts.
#[derive(Debug, Clone)]
pub struct Drafts {
    folder: Option<PathBuf>,
}

impl Drafts {
    /// `$XDG_STATE_HOME/coven/answer-drafts`, else below `~/.local/state`; without either, drafts are not kept.
    pub fn locate() -> Self {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
        Self { folder: state.map(|state| state.join("coven/answer-drafts")) }
    }

    #[cfg(test)]
    pub fn at(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()) }
    }

    fn file(&self, id: &str) -> Option<PathBuf> {
        // The id comes from the name of a folder, which anybody may have made.
        let is_sound = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        self.folder.as_ref().filter(|_| is_sound).map(|folder| folder.join(format!("{id}.json")))
    }

    /// What was kept; one that cannot be read is none.
    pub fn load(&self, id: &str) -> Option<Draft> {
        let text = coven_files::read(&self.file(id)?, DRAFT, Links::Refuse).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn save(&self, id: &str, draft: &Draft) -> io::Result<()> {
        let Some(file) = self.file(id) else { return Ok(()) };
        if draft.is_blank() {
            self.remove(id);
            return Ok(());
        }
        let folder = file.parent().expect("a file in a folder");
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        // Temporary files are 0600 from the start: drafts are nobody else's business.
        let mut new = tempfile::Builder::new().prefix(".draft-").tempfile_in(folder)?;
        new.write_all(&serde_json::to_vec(draft).expect("plain data"))?;
        new.persist(file).map_err(|error| error.error)?;
        Ok(())
    }

    pub fn remove(&self, id: &str) {
        if let Some(file) = self.file(id) {
            // One that is not there needs no removing; one that stays is removed when it is too old.
            let _ = fs::remove_file(file);
        }
    }

    /// Removes drafts of sets that are finished, and those that nobody comes back to.
    pub fn tidy(&self, is_finished: impl Fn(&str) -> bool, now: SystemTime) {
        let files = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok());
        for entry in files.into_iter().flatten().flatten() {
            let path = entry.path();
            let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|at| now.duration_since(at).ok());
            if age.is_some_and(|age| age > OLDEST) || id_of(&path).is_some_and(&is_finished) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn id_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".json")
}

#[cfg(test)]
mod tests {
    use super::super::reply::Choosable;
    use super::*;
    use coven_domain::question::Choice;
    use std::os::unix::fs::PermissionsExt;

    fn question() -> Question {
        let options = ["A", "B"].map(|label| Choice { label: label.into(), description: None }).to_vec();
        Question { options, prompt: "Which?".into(), title: "W".into(), multi_select: false }
    }

    fn draft() -> Draft {
        let mut draft = Draft::default().fitted(&[question(), question()]);
        draft.replies[1].keep_text(Choosable::Other, "漢字\nmore");
        draft
    }

    #[test]
    fn a_draft_comes_back_and_is_nobody_elses_business() {
        let folder = tempfile::tempdir().expect("a folder");
        let drafts = Drafts::at(&folder.path().join("state/answer-drafts"));
        drafts.save("1a-2b", &draft()).expect("saved");
        assert_eq!(drafts.load("1a-2b"), Some(draft()));
        let file = folder.path().join("state/answer-drafts/1a-2b.json");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().expect("a folder"))), (0o600, 0o700));
        drafts.save("1a-2b", &Draft::default()).expect("saved");
        assert!(!file.exists(), "a blank draft is none");
    }

    #[test]
    fn an_id_never_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let drafts = Drafts::at(&folder.path().join("drafts"));
        drafts.save("../x", &draft()).expect("nothing to do");
        assert!(!folder.path().join("x.json").exists());
    }

    #[test]
    fn drafts_of_finished_sets_and_old_ones_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let drafts = Drafts::at(folder.path());
        for id in ["done", "open"] {
            drafts.save(id, &draft()).expect("saved");
        }
        drafts.tidy(|id| id == "done", SystemTime::now());
        assert_eq!((drafts.load("done"), drafts.load("open")), (None, Some(draft())));
        drafts.tidy(|_| false, SystemTime::now() + OLDEST + Duration::from_secs(60));
        assert_eq!(drafts.load("open"), None);
    }

    #[test]
    fn a_draft_of_other_questions_is_cut_to_what_fits() {
        let mut draft = draft();
        draft.question = 7;
        let fitted = draft.fitted(&[question()]);
        assert_eq!((fitted.replies.len(), fitted.question), (1, 1));
    }

    #[test]
    fn a_broken_file_is_no_draft() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.json"), "{").expect("written");
        assert_eq!(Drafts::at(folder.path()).load("a"), None);
    }
}
