//! Records which homes, settings and repositories the user trusts. The records are stored outside of them, so that a
//! repository or archive cannot include its own. See `docs/security.md`.

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

/// The record of a home, or the agreements about one folder.
pub const TRUST_RECORD: Limit = Limit::new("a trust record", 1 << 20);

/// File in a home that contains the id of its record.
pub const HOME_ID: &str = "home.id";
const HOME_ID_FILE: Limit = Limit::new("the id of a home", 64);

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("no folder for trust records found; set HOME or XDG_STATE_HOME")]
    Nowhere,
    #[error("cannot access the trust records in {}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("{} is not valid UTF-8 and cannot be recorded; choose another folder", path.display())]
    NotText { path: PathBuf },
}

/// Origin of the settings of a recorded home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user created or named the home, so its settings are the user's own.
    Made,
    /// The home contained settings before coven first used it, so they may have come with a repository or archive.
    Found,
}

/// Records that this user created, or agreed to, the state of a home on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeRecord {
    pub id: Uuid,
    pub path: String,
    pub uid: u32,
    pub origin: Origin,
}

/// The user's decisions about the settings of one home or repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Agreement {
    pub path: String,
    /// Hash of each part that the user agreed to, by key.
    pub agreed: BTreeMap<String, String>,
    /// Hash of each part that the user declined, by key. Coven asks again only if the part changes.
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
    /// Name of the setting: `harnesses.mine`, `grimoires/release.yaml`, `filter.crypt.clean`.
    pub key: String,
    /// Effect of the setting, in one line.
    pub effect: String,
    /// Further details: every command of a workflow file, the whole entry of a harness.
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

/// This user's records on this machine, in `$XDG_STATE_HOME/coven`.
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

    /// Returns the record of this home if its id, path and owner match the record.
    pub fn home(&self, path: &Path) -> Option<HomeRecord> {
        let record: HomeRecord = self.read(&self.home_file(home_id(path)?))?;
        let is_same = Path::new(&record.path) == path && record.uid == rustix::process::geteuid().as_raw();
        is_same.then_some(record)
    }

    /// Records a home and writes the record's id into it. Returns the existing record if there is one.
    pub fn record_home(&self, path: &Path, origin: Origin) -> Result<HomeRecord, TrustError> {
        if let Some(record) = self.home(path) {
            return Ok(record);
        }
        let _lock = self.lock()?;
        if let Some(record) = self.home(path) {
            return Ok(record);
        }
        let id = Uuid::new_v4();
        let record = HomeRecord { id, path: text(path)?, uid: rustix::process::geteuid().as_raw(), origin };
        // Write the record first: after a crash in between, a record without a home has no effect.
        self.write(&self.home_file(id), &record)?;
        let unusable = |source| TrustError::Unusable { path: path.to_owned(), source };
        write_whole(&path.join(HOME_ID), format!("{id}\n").as_bytes()).map_err(unusable)?;
        self.forget_missing_homes();
        Ok(record)
    }

    /// Returns all recorded homes, sorted by path.
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

    /// Returns the user's decisions about a folder's settings; empty if there are none.
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

    /// Deletes a home's record and all agreements about the folder. Returns false if there were none.
    pub fn revoke(&self, subject: &Path) -> Result<bool, TrustError> {
        let _lock = self.lock()?;
        let homes = self.homes().into_iter().filter(|home| Path::new(&home.path) == subject);
        let files = homes.map(|home| self.home_file(home.id)).chain([self.agreement_file(subject)]);
        let mut was_removed = false;
        for file in files {
            match fs::remove_file(&file) {
                Ok(()) => was_removed = true,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(TrustError::Unusable { path: file, source }),
            }
        }
        Ok(was_removed)
    }

    fn change(&self, subject: &Path, change: impl FnOnce(&mut Agreement)) -> Result<(), TrustError> {
        let _lock = self.lock()?;
        let before = self.agreement(subject);
        let mut agreement = Agreement { path: text(subject)?, ..before.clone() };
        change(&mut agreement);
        match agreement == before {
            true => Ok(()),
            false => self.write(&self.agreement_file(subject), &agreement),
        }
    }

    /// Deletes the records of missing homes, which would otherwise accumulate.
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

    /// Reads a record. A record that cannot be read counts as absent, so coven asks the user again.
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

    /// Locks the records for writing.
    fn lock(&self) -> Result<File, TrustError> {
        let unusable = |source| TrustError::Unusable { path: self.folder.clone(), source };
        for folder in ["homes", "agreements"] {
            let created = DirBuilder::new().recursive(true).mode(0o700).create(self.folder.join(folder));
            created.map_err(unusable)?;
        }
        let file = open_own(&self.folder.join("lock")).map_err(unusable)?;
        file.lock().map_err(unusable)?;
        Ok(file)
    }
}

/// Opens one of coven's own files for writing, or creates it. Refuses symbolic links and anything but regular files.
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

/// Replaces a file atomically. A symbolic link is replaced, not followed.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().expect("a path with a folder");
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
