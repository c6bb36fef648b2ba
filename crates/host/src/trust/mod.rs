//! Which homes, settings and repositories are the user's own. The records are kept outside of them, so that a repository or
//! archive cannot bring its own. See `docs/security.md`.

mod folder;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coven_files::{Limit, Links};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use folder::others_can_write;
pub use settings::{Withheld, effective, mark_withheld, unsettled, withheld_notice, workflow_is_allowed};

/// One record of a home, or the agreements about one folder.
pub const TRUST_RECORD: Limit = Limit::new("a trust record", 1 << 20);

/// The file in a home that holds the id of its record.
pub const HOME_ID: &str = "home.id";
const HOME_ID_FILE: Limit = Limit::new("the id of a home", 64);

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("there is no folder for trust records; set HOME or XDG_STATE_HOME")]
    Nowhere,
    #[error("the trust records in {} cannot be used", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("{} is not valid UTF-8 and cannot be recorded; choose another folder", path.display())]
    NotText { path: PathBuf },
}

/// Where the settings of a recorded home came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user made the home, or named it: its settings are the user's own.
    Made,
    /// The home held settings before coven first used it: they may have come with a repository or archive.
    Found,
}

/// Says that this user made, or agreed to, the state of a home on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeRecord {
    pub id: Uuid,
    pub path: String,
    pub uid: u32,
    pub origin: Origin,
}

/// What the user said about the settings of one home or repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreement {
    pub path: String,
    /// The hash of each part that the user agreed to, by its key.
    pub agreed: BTreeMap<String, String>,
    /// Parts that the user was asked about and refused; they are not asked about again until they change.
    #[serde(default)]
    pub declined: BTreeMap<String, String>,
}

impl Agreement {
    pub fn covers(&self, part: &Part) -> bool {
        self.agreed.get(&part.key) == Some(&part.hash)
    }

    pub fn declines(&self, part: &Part) -> bool {
        self.declined.get(&part.key) == Some(&part.hash)
    }
}

/// One setting that can run or open something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Where it is: `harnesses.mine`, `grimoires/release.yaml`, `filter.crypt.clean`.
    pub key: String,
    /// What it would do, in one line.
    pub effect: String,
    /// What that line leaves out: every command of a workflow file, the whole entry of a harness.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
    #[serde(skip)]
    hash: String,
}

impl Part {
    pub fn new(key: impl Into<String>, effect: impl Into<String>, content: &[u8]) -> Self {
        let hash = hex(&Sha256::digest(content));
        Self { key: key.into(), effect: effect.into(), details: Vec::new(), hash }
    }

    pub fn with_details(self, details: Vec<String>) -> Self {
        Self { details, ..self }
    }
}

/// The records of this user on this machine: `$XDG_STATE_HOME/coven`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustStore {
    folder: PathBuf,
}

impl TrustStore {
    pub fn locate() -> Result<Self, TrustError> {
        let var = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = var("XDG_STATE_HOME").or_else(|| var("HOME").map(|home| home.join(".local/state")));
        state.map(|state| Self::at(&state.join("coven"))).ok_or(TrustError::Nowhere)
    }

    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The record of this home, if its id, its path and its owner are the recorded ones.
    pub fn home(&self, path: &Path) -> Option<HomeRecord> {
        let record: HomeRecord = self.read(&self.home_file(home_id(path)?))?;
        let is_same = Path::new(&record.path) == path && record.uid == rustix::process::geteuid().as_raw();
        is_same.then_some(record)
    }

    /// Records a home and puts the record's id into it. A home that is recorded stays as it is.
    pub fn record_home(&self, path: &Path, origin: Origin) -> Result<HomeRecord, TrustError> {
        if let Some(record) = self.home(path) {
            return Ok(record);
        }
        let _turn = self.lock()?;
        if let Some(record) = self.home(path) {
            return Ok(record);
        }
        let id = Uuid::new_v4();
        let record = HomeRecord { id, path: text(path)?, uid: rustix::process::geteuid().as_raw(), origin };
        // The record first: a crash in between leaves a record without a home, which means nothing.
        self.write(&self.home_file(id), &record)?;
        let unusable = |source| TrustError::Unusable { path: path.to_owned(), source };
        write_whole(&path.join(HOME_ID), format!("{id}\n").as_bytes()).map_err(unusable)?;
        self.forget_missing_homes();
        Ok(record)
    }

    /// Every recorded home, by path.
    pub fn homes(&self) -> Vec<HomeRecord> {
        let mut homes: Vec<HomeRecord> = self.all("homes");
        homes.sort_by(|one, other| one.path.cmp(&other.path));
        homes
    }

    pub fn agreements(&self) -> Vec<Agreement> {
        let mut agreements: Vec<Agreement> = self.all("agreements");
        agreements.sort_by(|one, other| one.path.cmp(&other.path));
        agreements
    }

    /// What the user said about a folder's settings; nothing if never asked.
    pub fn agreement(&self, subject: &Path) -> Agreement {
        let found: Option<Agreement> = self.read(&self.agreement_file(subject));
        found.filter(|found| Path::new(&found.path) == subject).unwrap_or_default()
    }

    pub fn agree(&self, subject: &Path, parts: &[Part]) -> Result<(), TrustError> {
        self.change(subject, |agreement| {
            for part in parts {
                agreement.declined.remove(&part.key);
                agreement.agreed.insert(part.key.clone(), part.hash.clone());
            }
        })
    }

    pub fn decline(&self, subject: &Path, parts: &[Part]) -> Result<(), TrustError> {
        self.change(subject, |agreement| {
            agreement.declined.extend(parts.iter().map(|part| (part.key.clone(), part.hash.clone())));
        })
    }

    /// Forgets a home's record and every agreement about the folder; false if there was neither.
    pub fn revoke(&self, subject: &Path) -> Result<bool, TrustError> {
        let _turn = self.lock()?;
        let homes = self.homes().into_iter().filter(|home| Path::new(&home.path) == subject);
        let files = homes.map(|home| self.home_file(home.id)).chain([self.agreement_file(subject)]);
        let mut was_there = false;
        for file in files {
            match fs::remove_file(&file) {
                Ok(()) => was_there = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(TrustError::Unusable { path: file, source }),
            }
        }
        Ok(was_there)
    }

    fn change(&self, subject: &Path, change: impl FnOnce(&mut Agreement)) -> Result<(), TrustError> {
        let _turn = self.lock()?;
        let before = self.agreement(subject);
        let mut agreement = Agreement { path: text(subject)?, ..before.clone() };
        change(&mut agreement);
        match agreement == before {
            true => Ok(()),
            false => self.write(&self.agreement_file(subject), &agreement),
        }
    }

    /// Records of homes that were deleted would only ever grow in number.
    fn forget_missing_homes(&self) {
        for home in self.homes().into_iter().filter(|home| !Path::new(&home.path).exists()) {
            let _ = fs::remove_file(self.home_file(home.id));
        }
    }

    fn home_file(&self, id: Uuid) -> PathBuf {
        self.folder.join("homes").join(format!("{id}.json"))
    }

    fn agreement_file(&self, subject: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let name = hex(&Sha256::digest(subject.as_os_str().as_bytes()));
        self.folder.join("agreements").join(format!("{}.json", &name[..32]))
    }

    /// A record that cannot be read counts as absent: the user is asked again.
    fn read<T: DeserializeOwned>(&self, file: &Path) -> Option<T> {
        let owner = fs::symlink_metadata(&self.folder).ok()?;
        if !owner.is_dir() || owner.uid() != rustix::process::geteuid().as_raw() || owner.mode() & 0o022 != 0 {
            return None;
        }
        serde_json::from_slice(&coven_files::read(file, TRUST_RECORD, Links::Refuse).ok()?).ok()
    }

    fn all<T: DeserializeOwned>(&self, folder: &str) -> Vec<T> {
        let entries = fs::read_dir(self.folder.join(folder)).into_iter().flatten().flatten();
        entries.filter_map(|entry| self.read(&entry.path())).collect()
    }

    fn write(&self, file: &Path, record: &impl Serialize) -> Result<(), TrustError> {
        let bytes = serde_json::to_vec_pretty(record).expect("a record is plain data");
        write_whole(file, &bytes).map_err(|source| TrustError::Unusable { path: self.folder.clone(), source })
    }

    /// One writer at a time.
    fn lock(&self) -> Result<File, TrustError> {
        let unusable = |source| TrustError::Unusable { path: self.folder.clone(), source };
        for folder in ["homes", "agreements"] {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(folder));
            made.map_err(unusable)?;
        }
        let file = open_own(&self.folder.join("lock")).map_err(unusable)?;
        file.lock().map_err(unusable)?;
        Ok(file)
    }
}

/// Opens a file of coven's own for writing and creates it if it is missing; never through a link, and only a regular file.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let opened = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = match opened {
        Err(_) if path.is_symlink() => return Err(coven_files::ReadError::Link { path: path.to_owned() }.into()),
        opened => opened?,
    };
    coven_files::ensure_regular(&file, path)?;
    Ok(file)
}

/// Replaces a file in one step. A link of its name is replaced, not followed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a file is in a folder");
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn home_id(home: &Path) -> Option<Uuid> {
    let text = coven_files::read_text(&home.join(HOME_ID), HOME_ID_FILE, Links::Refuse).ok()?;
    text.trim().parse().ok()
}

fn text(path: &Path) -> Result<String, TrustError> {
    path.to_str().map(str::to_owned).ok_or_else(|| TrustError::NotText { path: path.to_owned() })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
