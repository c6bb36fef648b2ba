//! A checksum at the end of every page of the database file.
//!
//! SQLite reads and writes files through a VFS. Ours is SQLite's default VFS with three functions replaced: it verifies
//! a page when it is read from the database file, adds the checksum when it is written there, and always reads whole
//! pages. Pages in the write-ahead log have SQLite's own checksums and end with zeros here.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::ptr;
use std::slice;
use std::sync::{Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, ffi};

/// Page size of the store; a database with another page size has no checksums.
pub const PAGE_SIZE: usize = 4096;
/// Reserved bytes at the end of a page, which SQLite does not use.
const SUM_SIZE: usize = 4;
/// The reserved bytes of a page without a checksum.
const NO_SUM: [u8; SUM_SIZE] = [0; SUM_SIZE];
const HEADER_SIZE: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
const NAME: &CStr = c"coven";

/// Returns the name of the VFS, for [`Connection::open_with_flags_and_vfs`].
pub fn vfs() -> &'static CStr {
    register();
    NAME
}

thread_local! {
    static DAMAGED_PAGE: Cell<u64> = const { Cell::new(0) };
}

/// Returns the page at which this thread's last read failed.
pub(crate) fn damaged_page() -> u64 {
    DAMAGED_PAGE.get()
}

/// Makes SQLite reserve room for checksums, immediately in an empty database and otherwise at its next VACUUM.
pub(super) fn reserve(connection: &Connection) -> rusqlite::Result<()> {
    reserved_bytes(connection, SUM_SIZE as c_int).map(drop)
}

pub(super) fn has_room(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(reserved_bytes(connection, -1)? == SUM_SIZE as c_int)
}

fn reserved_bytes(connection: &Connection, wanted: c_int) -> rusqlite::Result<c_int> {
    let mut bytes = wanted;
    let argument = (&raw mut bytes).cast::<c_void>();
    // SAFETY: the handle is that of an open connection, and this operation reads and writes one int.
    let code = unsafe {
        ffi::sqlite3_file_control(connection.handle(), ptr::null(), ffi::SQLITE_FCNTL_RESERVE_BYTES, argument)
    };
    match code {
        ffi::SQLITE_OK => Ok(bytes),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

/// What [`rewrite`] does to the pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rewrite {
    /// Writes the checksum of every page.
    All,
    /// Writes the checksum of pages without one.
    Missing,
    /// Removes all checksums.
    Remove,
}

/// Rewrites the checksums of a database and syncs the file. No connection to it may be open.
pub(super) fn rewrite(file: &File, how: Rewrite) -> io::Result<()> {
    let mut page = [0; PAGE_SIZE];
    let length = file.metadata()?.len();
    if length < PAGE_SIZE as u64 {
        return Ok(());
    }
    file.read_exact_at(&mut page, 0)?;
    if !has_sums(&page) {
        return Ok(());
    }
    for number in 1..=length / PAGE_SIZE as u64 {
        let at = (number - 1) * PAGE_SIZE as u64;
        file.read_exact_at(&mut page, at)?;
        let (content, found) = split(&page);
        let sum = match how {
            Rewrite::Missing if found != NO_SUM => continue,
            Rewrite::Missing | Rewrite::All => sum(content, number),
            Rewrite::Remove => NO_SUM,
        };
        if found != sum {
            file.write_all_at(&sum, at + (PAGE_SIZE - SUM_SIZE) as u64)?;
        }
    }
    file.sync_all()
}

/// Returns the numbers of pages that do not match their checksum.
pub(super) fn damaged_pages(file: &File) -> io::Result<Vec<u64>> {
    let mut page = [0; PAGE_SIZE];
    let mut damaged = Vec::new();
    for number in 1..=file.metadata()?.len() / PAGE_SIZE as u64 {
        file.read_exact_at(&mut page, (number - 1) * PAGE_SIZE as u64)?;
        let (content, found) = split(&page);
        if number == 1 && !has_sums(content) {
            return Ok(damaged);
        }
        if found != sum(content, number) {
            damaged.push(number);
        }
    }
    Ok(damaged)
}

/// What the first page of a database file shows about its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstPage {
    Empty,
    /// No room for checksums: a foreign, older or damaged file.
    WithoutRoom,
    /// Room but no checksum: another program rewrote the whole file.
    WithoutSum,
    WithSum,
}

impl FirstPage {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let mut page = [0; PAGE_SIZE];
        match file.metadata()?.len() {
            0 => return Ok(Self::Empty),
            length if length < PAGE_SIZE as u64 => return Ok(Self::WithoutRoom),
            _ => file.read_exact_at(&mut page, 0)?,
        }
        Ok(match split(&page) {
            (content, _) if !has_sums(content) => Self::WithoutRoom,
            (_, NO_SUM) => Self::WithoutSum,
            _ => Self::WithSum,
        })
    }
}

/// Returns the checksum of a page. It includes the page number, so that a misplaced page does not match. Never
/// [`NO_SUM`].
fn sum(content: &[u8], number: u64) -> [u8; SUM_SIZE] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(content);
    hasher.update(&number.to_le_bytes());
    hasher.finalize().max(1).to_le_bytes()
}

fn split(page: &[u8; PAGE_SIZE]) -> (&[u8], [u8; SUM_SIZE]) {
    let (content, sum) = page.split_last_chunk().expect("a page is larger than its checksum");
    (content, *sum)
}

/// Reports whether a database that starts with these bytes has room for checksums.
fn has_sums(start: &[u8]) -> bool {
    let size = u16::from_be_bytes([start[16], start[17]]);
    start.starts_with(MAGIC) && usize::from(size) == PAGE_SIZE && usize::from(start[20]) == SUM_SIZE
}

/// Our state of an open database file, stored after SQLite's own record of the file.
struct State {
    has_sums: bool,
}

/// File methods with our replacements, and SQLite's original methods.
#[repr(C)]
struct Methods {
    ours: ffi::sqlite3_io_methods,
    sqlites: *const ffi::sqlite3_io_methods,
}

struct Vfs(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite registers a VFS once and never changes or frees it.
unsafe impl Send for Vfs {}
// SAFETY: as above.
unsafe impl Sync for Vfs {}

/// A table of methods that is never changed or freed.
struct Replaced(&'static Methods);

// SAFETY: nothing writes to it after its creation.
unsafe impl Send for Replaced {}

static SQLITES: OnceLock<Vfs> = OnceLock::new();
/// One table for each of SQLite's method tables; on Linux there is one.
static REPLACED: Mutex<Vec<Replaced>> = Mutex::new(Vec::new());

fn register() {
    SQLITES.get_or_init(|| {
        // SAFETY: SQLite's default VFS exists as long as the process; the copy is leaked because a registered VFS must
        // stay valid.
        unsafe {
            let sqlites = ffi::sqlite3_vfs_find(ptr::null());
            let ours = Box::leak(Box::new(*sqlites));
            ours.zName = NAME.as_ptr();
            ours.pNext = ptr::null_mut();
            ours.szOsFile = (state_offset(sqlites) + size_of::<State>()) as c_int;
            ours.xOpen = Some(open);
            assert_eq!(ffi::sqlite3_vfs_register(ours, 0), ffi::SQLITE_OK, "a complete VFS can be registered");
            Vfs(sqlites)
        }
    });
}

/// Returns the offset of our state in the memory that SQLite allocates for a file.
unsafe fn state_offset(sqlites: *const ffi::sqlite3_vfs) -> usize {
    // SAFETY: the caller passes a VFS.
    let own = unsafe { (*sqlites).szOsFile };
    (own as usize).next_multiple_of(align_of::<State>())
}

/// Opens the file as SQLite does, then replaces the methods if it is a database.
unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let sqlites = SQLITES.get().expect("files are opened after the VFS was registered").0;
    // SAFETY: `file` points to as many bytes as our VFS asked for: SQLite's own record, then our state.
    unsafe {
        let xopen = (*sqlites).xOpen.expect("SQLite's VFS opens files");
        let code = xopen(sqlites, name, file, flags, out_flags);
        if code == ffi::SQLITE_OK && flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            state(file).write(State { has_sums: false });
            (*file).pMethods = &raw const replaced((*file).pMethods).ours;
        }
        code
    }
}

fn replaced(sqlites: *const ffi::sqlite3_io_methods) -> &'static Methods {
    let mut all = REPLACED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(Replaced(found)) = all.iter().find(|Replaced(it)| it.sqlites == sqlites) {
        return found;
    }
    // SAFETY: SQLite's tables of methods are constants.
    let mut ours = unsafe { *sqlites };
    ours.xRead = Some(read);
    ours.xWrite = Some(write);
    ours.xDeviceCharacteristics = Some(characteristics);
    let new: &'static Methods = Box::leak(Box::new(Methods { ours, sqlites }));
    all.push(Replaced(new));
    new
}

/// Returns our state of a file that [`open`] opened or is opening.
unsafe fn state(file: *mut ffi::sqlite3_file) -> *mut State {
    let sqlites = SQLITES.get().expect("files are opened after the VFS was registered").0;
    // SAFETY: the memory after SQLite's own record of the file is ours and aligned for the state.
    unsafe { file.cast::<u8>().add(state_offset(sqlites)).cast() }
}

/// Returns SQLite's own methods of a file that [`open`] opened.
unsafe fn sqlites<'a>(file: *mut ffi::sqlite3_file) -> &'a ffi::sqlite3_io_methods {
    // SAFETY: its methods are the first field of our [`Methods`].
    unsafe { &*(*(*file).pMethods.cast::<Methods>()).sqlites }
}

unsafe extern "C" fn read(file: *mut ffi::sqlite3_file, into: *mut c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite's arguments are passed on; on success the buffer has `length` initialized bytes.
    unsafe {
        let xread = sqlites(file).xRead.expect("SQLite reads files");
        let code = xread(file, into, length, at);
        if code != ffi::SQLITE_OK {
            return code;
        }
        let bytes = slice::from_raw_parts_mut(into.cast::<u8>(), length as usize);
        let state = &mut *state(file);
        // Reading never clears the flag: a damaged header must not disable the checks.
        if at == 0 && bytes.len() >= HEADER_SIZE {
            state.has_sums |= has_sums(bytes);
        }
        let Some((page, number)) = page_at(bytes, at).filter(|_| state.has_sums) else { return code };
        let (content, found) = split(page);
        if found != sum(content, number) {
            DAMAGED_PAGE.set(number);
            return ffi::SQLITE_IOERR_DATA;
        }
        page[PAGE_SIZE - SUM_SIZE..].copy_from_slice(&NO_SUM);
        code
    }
}

unsafe extern "C" fn write(file: *mut ffi::sqlite3_file, from: *const c_void, length: c_int, at: i64) -> c_int {
    // SAFETY: SQLite's buffer has `length` bytes; the copy that replaces it has as many.
    unsafe {
        let xwrite = sqlites(file).xWrite.expect("SQLite writes files");
        let bytes = slice::from_raw_parts(from.cast::<u8>(), length as usize);
        let state = &mut *state(file);
        if at == 0 && bytes.len() >= HEADER_SIZE {
            state.has_sums = has_sums(bytes);
        }
        if bytes.len() != PAGE_SIZE || !state.has_sums {
            return xwrite(file, from, length, at);
        }
        let mut copy = [0; PAGE_SIZE];
        copy.copy_from_slice(bytes);
        if let Some((page, number)) = page_at(&mut copy, at) {
            let sum = sum(split(page).0, number);
            page[PAGE_SIZE - SUM_SIZE..].copy_from_slice(&sum);
        }
        xwrite(file, copy.as_ptr().cast(), length, at)
    }
}

/// Returns SQLite's own characteristics without partial page reads, which could not be verified.
unsafe extern "C" fn characteristics(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite's argument is passed on.
    let own = unsafe { sqlites(file).xDeviceCharacteristics.map_or(0, |get| get(file)) };
    own & !ffi::SQLITE_IOCAP_SUBPAGE_READ
}

/// Returns the bytes as a page with its number, if they are one whole page.
fn page_at(bytes: &mut [u8], at: i64) -> Option<(&mut [u8; PAGE_SIZE], u64)> {
    let at = u64::try_from(at).ok().filter(|at| at % PAGE_SIZE as u64 == 0)?;
    Some((bytes.try_into().ok()?, at / PAGE_SIZE as u64 + 1))
}
