//! Files and directories of the operating system.
//!
//! All functions return plain `io::Result`s and retry when a signal interrupts. A full disk is
//! `ErrorKind::StorageFull`.

#[cfg(test)]
mod tests;

use std::{
    ffi::OsString,
    io,
    num::NonZeroU64,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
    path::Path,
};

use rustix::{
    fs::{self, Advice, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags},
    io::{Errno, pread, pwrite, retry_on_intr},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

/// Multiples of this many bytes suffice for offsets, lengths and addresses of direct I/O, wherever it works at all.
pub const ALIGN: usize = 4096;
/// No [unit](File::unit) is smaller: the disk writes at least so much at once.
const SECTOR: usize = 512;

/// The unit in bytes in which a system call counts the space of a file, whatever the blocks of its file system are.
const BLOCK: u64 = 512;

/// Bytes of zero that are written at once where the file system cannot preallocate.
const ZEROS: usize = 64 << 10;

#[repr(align(4096))]
struct Zeros([u8; ZEROS]);

static ZERO: Zeros = Zeros([0; ZEROS]);

/// The number of files that the process may have open.
pub fn most_open() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Whether an error says that the process or the system may have no more files open.
pub fn is_for_too_many(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// For tests: limits this process to so many open files.
#[doc(hidden)]
pub fn set_most_open(most: u64) -> io::Result<()> {
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: getrlimit(Resource::Nofile).maximum })?)
}

/// Whether a file must or must not be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// The file is created; an existing one is an error.
    New,
    /// The file must exist.
    Existing,
    /// The file is opened, and created if it does not exist.
    Any,
}

/// An open file. Many threads may read and write it at the same time.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    direct: bool,
    unit: usize,
}

impl File {
    /// Opens a file of mode 0600; a symbolic link is refused. With `direct` its transfers bypass the page cache, if the
    /// file system can do that in units of [`ALIGN`]; [`is_direct`](Self::is_direct) tells whether it can.
    pub fn open(path: &Path, open: Open, direct: bool) -> io::Result<File> {
        File::open_at(CWD, path, open, direct)
    }

    fn open_at(directory: BorrowedFd<'_>, name: &Path, open: Open, direct: bool) -> io::Result<File> {
        let how = match open {
            Open::New => OFlags::CREATE | OFlags::EXCL,
            Open::Existing => OFlags::empty(),
            Open::Any => OFlags::CREATE,
        };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | how;
        let fd = retry_on_intr(|| fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR))?;
        if FileType::from_raw_mode(fs::fstat(&fd)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        File::from_fd(fd, direct)
    }

    pub(crate) fn from_fd(fd: OwnedFd, direct: bool) -> io::Result<File> {
        // Direct I/O is not requested at open: a file system that refuses it there may have created the file already.
        let unit = if direct { make_direct(&fd)? } else { None };
        Ok(File { fd, direct: unit.is_some(), unit: unit.unwrap_or(SECTOR) })
    }

    /// Whether transfers bypass the page cache and must be aligned.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Offsets, lengths and addresses of direct transfers are multiples of this many bytes: a power of two, from 512 to
    /// [`ALIGN`].
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Reads until `buffer` is full or the file ends; gives the bytes read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read_with(buffer, offset, |rest, offset| Ok(pread(&self.fd, rest, offset)?))
    }

    /// The same, for calls that may read less than is asked for.
    pub(crate) fn read_with(
        &self,
        buffer: &mut [u8],
        offset: u64,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let count = match read(rest, offset + done as u64) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            };
            match self.resume_after(count) {
                0 => return Ok(done + count),
                usable => done += usable,
            }
        }
        Ok(done)
    }

    /// Writes all of `buffer`.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while let Some(rest) = buffer.get(done..).filter(|rest| !rest.is_empty()) {
            let count = retry_on_intr(|| pwrite(&self.fd, rest, offset + done as u64))?;
            if count == rest.len() {
                return Ok(());
            }
            match self.resume_after(count) {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                usable => done += usable,
            }
        }
        Ok(())
    }

    /// How far to go on after a transfer of `count` bytes. Direct transfers must stay aligned, so their unaligned end
    /// is transferred again. The usable part is empty only at the end of the file.
    pub(crate) fn resume_after(&self, count: usize) -> usize {
        if self.direct { count - count % self.unit } else { count }
    }

    /// Makes the written bytes and the length durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::fdatasync(&self.fd))?)
    }

    /// Reserves space for `length` bytes from `offset` on, holes included, and makes the file at least long enough for
    /// them; new bytes read as zero. Where the file system cannot do that, appends zeros (of a direct file up to the
    /// next multiple of [`ALIGN`]).
    pub fn preallocate(&self, offset: u64, length: u64) -> io::Result<()> {
        if length == 0 {
            return Ok(());
        }
        match retry_on_intr(|| fs::fallocate(&self.fd, FallocateFlags::empty(), offset, length)) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.append_zeros(offset.checked_add(length).ok_or(io::ErrorKind::FileTooLarge)?)
            }
            result => Ok(result?),
        }
    }

    /// Gives the space of a range back to the file system, so that the range reads as zero; the length stays. False if
    /// the file system cannot do that, or has no space for its own records of it.
    pub fn punch(&self, offset: u64, length: u64) -> io::Result<bool> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fs::fallocate(&self.fd, flags, offset, length)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOSPC | Errno::DQUOT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn append_zeros(&self, length: u64) -> io::Result<()> {
        let grain = if self.direct { ALIGN as u64 } else { 1 };
        let end = length.next_multiple_of(grain);
        let mut at = self.len()?.next_multiple_of(grain);
        while at < end {
            let count = usize::try_from(end - at).map_or(ZEROS, |rest| rest.min(ZEROS));
            self.write_at(&ZERO.0[..count], at)?;
            at += count as u64;
        }
        Ok(())
    }

    /// Cuts or extends the file; new bytes read as zero.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::ftruncate(&self.fd, length))?)
    }

    /// The length in bytes.
    pub fn len(&self) -> io::Result<u64> {
        let length = fs::fstat(&self.fd)?.st_size;
        u64::try_from(length).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "negative length"))
    }

    /// Bytes of the blocks that the file system has allocated to the file.
    pub fn reserved(&self) -> io::Result<u64> {
        let blocks = u64::try_from(fs::fstat(&self.fd)?.st_blocks);
        blocks
            .map(|blocks| blocks * BLOCK)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "negative number of blocks"))
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Tells the kernel that the clean cached pages of a range are not needed; a length of 0 means up to the end.
    pub fn advise_dont_need(&self, offset: u64, length: u64) -> io::Result<()> {
        Ok(fs::fadvise(&self.fd, offset, NonZeroU64::new(length), Advice::DontNeed)?)
    }

    /// Releases the lock, even where copies of the file are still open: in a forked process, or in the kernel.
    pub fn unlock(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::flock(&self.fd, FlockOperation::Unlock))?)
    }

    /// Locks the file until it is closed; false if another open file holds the lock.
    pub fn try_lock_exclusive(&self) -> io::Result<bool> {
        match retry_on_intr(|| fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An open directory. It stays the same directory, wherever it is moved.
#[derive(Debug)]
pub struct Directory {
    fd: OwnedFd,
}

impl Directory {
    /// Opens the directory that is at a path now.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Directory { fd: retry_on_intr(|| fs::open(path, flags, Mode::empty()))? })
    }

    /// Distinguishes the directory from all others while it is open: the number of its device and its inode number.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        let stat = fs::fstat(&self.fd)?;
        Ok((stat.st_dev, stat.st_ino))
    }

    /// Opens a file in it, as [`File::open`] does.
    pub fn open_file(&self, name: &str, open: Open, direct: bool) -> io::Result<File> {
        File::open_at(self.fd.as_fd(), Path::new(name), open, direct)
    }

    /// Removes the name of a file.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::unlinkat(&self.fd, name, AtFlags::empty()))?)
    }

    /// The names in the directory, without itself and its parent.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Makes the creations and removals of names in it durable.
    pub fn sync(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fs::fsync(&self.fd))?)
    }

    /// Bytes that a program without privileges may still write to the directory's file system.
    pub fn free_space(&self) -> io::Result<u64> {
        let stat = retry_on_intr(|| fs::fstatvfs(&self.fd))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

/// Makes a directory of mode 0700; an existing one is an error.
pub fn create_directory(path: &Path) -> io::Result<()> {
    Ok(retry_on_intr(|| fs::mkdir(path, Mode::RWXU))?)
}

/// Switches an open file to direct I/O, if its file system can do that in units of [`ALIGN`] bytes; returns the
/// smallest unit.
fn make_direct(fd: &OwnedFd) -> io::Result<Option<usize>> {
    let Some(unit) = direct_unit(fd) else { return Ok(None) };
    let flags = fs::fcntl_getfl(fd)?;
    match fs::fcntl_setfl(fd, flags | OFlags::DIRECT) {
        Ok(()) => Ok(Some(unit)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The smallest unit of direct I/O that the kernel reports, or [`ALIGN`] where it reports none. `None` if [`ALIGN`] is
/// not enough.
fn direct_unit(fd: &OwnedFd) -> Option<usize> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let Ok(stat) = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else { return Some(ALIGN) };
    if !StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN) {
        return Some(ALIGN);
    }
    let demands = [stat.stx_dio_mem_align, stat.stx_dio_offset_align].map(|demand| demand as usize);
    let met = demands.iter().all(|demand| *demand != 0 && ALIGN.is_multiple_of(*demand));
    // A divisor of a power of two is a power of two, so the greatest is a multiple of the others.
    met.then(|| demands.into_iter().fold(SECTOR, usize::max))
}
