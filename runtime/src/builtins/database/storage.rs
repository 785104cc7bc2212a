//! SQLite's files: descriptors that come from the host one by one, as SQLite asks for them.
//!
//! A run's process opens nothing itself. While a statement runs, the program's host is lent to this thread, and each file
//! that SQLite wants (the database, its `-journal`, its `-wal`) is asked for anew: another program may have removed
//! or replaced it since. Locks are those that SQLite's own code for Unix takes, on the same bytes, so that both keep out
//! of each other's way.
//!
//! Invariant: SQLite sees made-up names only. What isn't one of them, with one of the two endings, is nowhere.
//! Invariant: nothing waits for a lock here; SQLite asks again, for a bounded time.
//! Source: sqlite.org/vfs.html, sqlite.org/lockingv3.html, fcntl(2), os_unix.c of SQLite (where each byte's meaning is told).

use crate::broker::Reply;
use crate::partition::Core;
use crate::partition::host::Host;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use policies::broker::{Act, By, Part, Refused, Request};
use sqlite_vfs::wip::{WalIndex, WalIndexLock};
use sqlite_vfs::{DatabaseHandle, LockKind, OpenAccess, OpenKind, OpenOptions, Vfs};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Duration;

/// The name under which SQLite knows this.
pub(super) const NAME: &CStr = c"thirdwall";

static MENDED: OnceLock<fn(&CStr) -> bool> = OnceLock::new();

/// Who gives the file system of a name a right clock, once it is registered: what `sqlite-vfs` gives it tells seconds where
/// milliseconds are meant, and nothing but unsafe code reaches that. It is to be said before the first database is opened.
pub fn mend_clock_with(mend: fn(&CStr) -> bool) {
    // A second one changes nothing.
    let _first = MENDED.set(mend);
}

/// Where a database is kept.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A file that the program named.
    File(String),
    /// The program's notebook.
    Notebook(String),
}

impl Place {
    fn request(&self, part: Part, act: Act) -> Request {
        match self {
            Self::File(path) => Request::Database { path: path.clone(), part, act },
            Self::Notebook(name) => Request::Notebook { name: name.clone(), part, act },
        }
    }
}

thread_local! {
    static HOST: RefCell<Option<Box<dyn Host>>> = const { RefCell::new(None) };
    static PLACES: RefCell<BTreeMap<String, Place>> = const { RefCell::new(BTreeMap::new()) };
    static MADE: Cell<u64> = const { Cell::new(0) };
    static REFUSED: RefCell<Option<Refused>> = const { RefCell::new(None) };
}

/// A host while the real one is lent.
struct Lent;

impl Host for Lent {
    fn print(&mut self, _text: &str) {}
    fn eprint(&mut self, _text: &str) {}
    fn audit(&mut self, _entry: policies::audit::Entry) {}
}

/// Runs something that may make SQLite ask for files.
pub(super) fn lending<T>(core: &mut Core, act: impl FnOnce(&mut Core) -> T) -> T {
    // What the program printed stands before what it asks for.
    core.host.flush();
    let host = std::mem::replace(&mut core.host, Box::new(Lent));
    let outer = HOST.replace(Some(host));
    REFUSED.set(None);
    let done = act(core);
    if let Some(host) = HOST.replace(outer) {
        core.host = host;
    }
    done
}

/// What the host refused last.
pub(super) fn refused() -> Option<Refused> {
    REFUSED.take()
}

/// A made-up name for a place.
pub(super) fn name(place: Place) -> String {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    // Failing leaves no such file system: opening says so.
    REGISTERED.get_or_init(|| {
        let registered = sqlite_vfs::register(&NAME.to_string_lossy(), Storage, false).is_ok();
        let mended = MENDED.get().is_none_or(|mend| mend(NAME));
        debug_assert!(mended, "SQLite's own file system has a clock");
        registered && mended
    });
    let number = MADE.get() + 1;
    MADE.set(number);
    let name = format!("/{number}");
    PLACES.with_borrow_mut(|places| places.insert(name.clone(), place));
    name
}

/// Forgets a made-up name.
pub(super) fn forget(name: &str) {
    PLACES.with_borrow_mut(|places| places.remove(name));
}

/// One act on one file, by SQLite's name for it.
fn ask(name: &str, act: Act) -> Result<Reply, Error> {
    let (main, part) = match (name.strip_suffix("-journal"), name.strip_suffix("-wal")) {
        (Some(main), _) => (main, Part::Journal),
        (None, Some(main)) => (main, Part::Log),
        (None, None) => (name, Part::Main),
    };
    let place = PLACES.with_borrow(|places| places.get(main).cloned());
    let place = place.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
    let reply = HOST.with_borrow_mut(|host| match host {
        Some(host) => host.broker(&place.request(part, act), &[]),
        None => Err("ask for a file: no statement runs".to_owned()),
    });
    match reply.map_err(Error::other)? {
        Reply::Refused(refused) => {
            let error = match refused.by {
                By::Kernel(errno) if errno == libc::EROFS => Error::from(ErrorKind::PermissionDenied),
                By::Kernel(errno) => Error::from_raw_os_error(errno),
                By::Ceiling | By::Limit | By::Misuse => Error::other(refused.why.clone()),
            };
            REFUSED.set(Some(refused));
            Err(error)
        }
        reply => Ok(reply),
    }
}

/// Whether a database is written with a log ahead, by its header.
pub(super) fn is_logged(name: &str) -> Result<bool, Error> {
    match ask(name, Act::Read) {
        Ok(Reply::File(file)) => {
            let mut header = [0; 20];
            match file.read_exact_at(&mut header, 0) {
                Ok(()) => Ok(header.starts_with(b"SQLite format 3\0") && header[18..] == [2, 2]),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
                Err(error) => Err(error),
            }
        }
        Ok(_) => Err(Error::other("the supervisor gave no file")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            REFUSED.set(None);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

struct Storage;

impl Vfs for Storage {
    type Handle = Stored;

    fn open(&self, name: &str, options: OpenOptions) -> Result<Stored, Error> {
        match options.kind {
            OpenKind::MainDb | OpenKind::MainJournal | OpenKind::Wal => {}
            // All that is temporary is kept in memory.
            OpenKind::TempDb
            | OpenKind::TempJournal
            | OpenKind::TransientDb
            | OpenKind::SubJournal
            | OpenKind::SuperJournal => return Err(Error::from(ErrorKind::Unsupported)),
        }
        let act = match options.access {
            OpenAccess::Read => Act::Read,
            OpenAccess::Write => Act::Write,
            OpenAccess::Create | OpenAccess::CreateNew => Act::Make,
        };
        match ask(name, act)? {
            Reply::File(file) => Ok(Stored { file, lock: LockKind::None }),
            _ => Err(Error::other("the supervisor gave no file")),
        }
    }

    fn delete(&self, name: &str) -> Result<(), Error> {
        ask(name, Act::Remove).map(drop)
    }

    fn exists(&self, name: &str) -> Result<bool, Error> {
        match ask(name, Act::Look) {
            // As SQLite's own code has it: an empty file is no journal.
            Ok(Reply::Seen(seen)) => Ok(seen.exists && seen.size > 0),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn temporary_name(&self) -> String {
        "nowhere".to_owned()
    }

    fn random(&self, buffer: &mut [i8]) {
        let mut bytes = vec![0; buffer.len()];
        HOST.with_borrow_mut(|host| {
            if let Some(host) = host {
                host.random(&mut bytes);
            }
        });
        for (to, from) in buffer.iter_mut().zip(bytes) {
            *to = from.cast_signed();
        }
    }

    fn sleep(&self, duration: Duration) -> Duration {
        std::thread::sleep(duration);
        duration
    }
}

/// Where SQLite's locks are in a database file.
const PENDING: i64 = 0x4000_0000;
const RESERVED: i64 = PENDING + 1;
const SHARED: Range<i64> = PENDING + 2..PENDING + 512;

/// An open file with what of it is locked.
struct Stored {
    file: File,
    lock: LockKind,
}

impl Stored {
    /// Sets a lock; `false` if somebody else's is in its way.
    fn set(&self, kind: i32, bytes: Range<i64>) -> Result<bool, Error> {
        match fcntl(&self.file, FcntlArg::F_OFD_SETLK(&region(kind, bytes))) {
            Ok(_) => Ok(true),
            Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Raises the lock by one of SQLite's steps.
    fn raise(&mut self, wanted: LockKind) -> Result<bool, Error> {
        if wanted as u16 <= self.lock as u16 {
            return Ok(true);
        }
        match wanted {
            LockKind::None => Ok(true),
            LockKind::Shared => {
                // Whoever waits for readers to go holds this byte: no new ones come.
                if !self.set(libc::F_RDLCK, PENDING..PENDING + 1)? {
                    return Ok(false);
                }
                let done = self.set(libc::F_RDLCK, SHARED);
                self.set(libc::F_UNLCK, PENDING..PENDING + 1)?;
                if done? {
                    self.lock = LockKind::Shared;
                    return Ok(true);
                }
                Ok(false)
            }
            LockKind::Reserved => {
                let done = self.set(libc::F_WRLCK, RESERVED..RESERVED + 1)?;
                if done {
                    self.lock = LockKind::Reserved;
                }
                Ok(done)
            }
            LockKind::Pending | LockKind::Exclusive => {
                if self.lock != LockKind::Pending {
                    if !self.set(libc::F_WRLCK, PENDING..PENDING + 1)? {
                        return Ok(false);
                    }
                    self.lock = LockKind::Pending;
                }
                let done = wanted == LockKind::Pending || self.set(libc::F_WRLCK, SHARED)?;
                if done {
                    self.lock = wanted;
                }
                Ok(done)
            }
        }
    }

    fn lower(&mut self, wanted: LockKind) -> Result<bool, Error> {
        if wanted as u16 >= self.lock as u16 {
            return Ok(true);
        }
        if wanted == LockKind::Shared {
            if !self.set(libc::F_RDLCK, SHARED)? {
                return Err(Error::from(ErrorKind::WouldBlock));
            }
            self.set(libc::F_UNLCK, PENDING..RESERVED + 1)?;
            self.lock = LockKind::Shared;
        } else {
            self.set(libc::F_UNLCK, PENDING..SHARED.end)?;
            self.lock = LockKind::None;
        }
        Ok(true)
    }
}

fn region(kind: i32, bytes: Range<i64>) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: bytes.start,
        l_len: bytes.end - bytes.start,
        // Must be 0 for these locks.
        l_pid: 0,
    }
}

impl DatabaseHandle for Stored {
    type WalIndex = NoIndex;

    fn size(&self) -> Result<u64, Error> {
        (&self.file).seek(SeekFrom::End(0))
    }

    fn read_exact_at(&mut self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => {
                    // SQLite wants zeros for what isn't there.
                    buffer[done..].fill(0);
                    return Err(Error::from(ErrorKind::UnexpectedEof));
                }
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_all_at(&mut self, buffer: &[u8], offset: u64) -> Result<(), Error> {
        FileExt::write_all_at(&self.file, buffer, offset).map_err(|error| {
            if error.raw_os_error() == Some(libc::ENOSPC) {
                // The kind by which SQLite says that the disk is full.
                Error::from(ErrorKind::WriteZero)
            } else {
                error
            }
        })
    }

    fn sync(&mut self, data_only: bool) -> Result<(), Error> {
        if data_only { self.file.sync_data() } else { self.file.sync_all() }
    }

    fn set_len(&mut self, size: u64) -> Result<(), Error> {
        self.file.set_len(size)
    }

    fn lock(&mut self, lock: LockKind) -> Result<bool, Error> {
        self.raise(lock)
    }

    fn unlock(&mut self, lock: LockKind) -> Result<bool, Error> {
        self.lower(lock)
    }

    fn reserved(&mut self) -> Result<bool, Error> {
        if self.lock as u16 > LockKind::Shared as u16 {
            return Ok(true);
        }
        let mut found = region(libc::F_WRLCK, RESERVED..RESERVED + 1);
        fcntl(&self.file, FcntlArg::F_OFD_GETLK(&mut found))?;
        Ok(i32::from(found.l_type) != libc::F_UNLCK)
    }

    fn current_lock(&self) -> Result<LockKind, Error> {
        Ok(self.lock)
    }

    fn wal_index(&self, _readonly: bool) -> Result<NoIndex, Error> {
        Err(Error::from(ErrorKind::Unsupported))
    }
}

/// The shared index of a log: memory that several processes map, which nothing here can. A database with a log is opened
/// by one alone, which then needs none.
struct NoIndex;

impl WalIndex for NoIndex {
    fn enabled() -> bool {
        false
    }

    fn map(&mut self, _region: u32) -> Result<[u8; 32768], Error> {
        Err(Error::from(ErrorKind::Unsupported))
    }

    fn lock(&mut self, _locks: Range<u8>, _lock: WalIndexLock) -> Result<bool, Error> {
        Err(Error::from(ErrorKind::Unsupported))
    }

    fn delete(self) -> Result<(), Error> {
        Ok(())
    }
}
