//! A file system that folds case: names are looked up in any spelling, as on macOS and Windows, and keep their original
//! spelling. This process serves it over `/dev/fuse` and stores its files in a directory of this machine.
#![allow(unsafe_code, reason = "a mount has no safe form")]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use unicode_normalization::UnicodeNormalization as _;

/// The size of the header of a request.
const HEADER_BYTES: usize = 40;
/// The most bytes that are written at once.
const WRITE_BYTES_MAX: u32 = 64 << 10;

/// The mount. It is unmounted on drop.
pub(super) struct FoldingMount {
    place: PathBuf,
}

impl FoldingMount {
    /// Mounts the directory `files` at `place`. Returns `None` if this system does not allow it.
    pub(super) fn mount(files: &Path, place: &Path) -> Option<Self> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let [name, target, kind, options] = [
            "folding".as_bytes(),
            place.as_os_str().as_bytes(),
            b"fuse",
            options.as_bytes(),
        ]
        .map(|text| CString::new(text).unwrap());
        // SAFETY: each text ends with a NUL byte and lives until the call returns.
        let mounted = unsafe {
            let flags = libc::MS_NOSUID | libc::MS_NODEV;
            libc::mount(
                name.as_ptr(),
                target.as_ptr(),
                kind.as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if mounted != 0 {
            return None;
        }
        let mut server = FuseServer {
            device,
            paths: BTreeMap::from([(1, files.to_owned())]),
            open: BTreeMap::new(),
        };
        std::thread::spawn(move || while server.answer_next().is_some() {});
        Some(Self {
            place: place.to_owned(),
        })
    }
}

impl Drop for FoldingMount {
    fn drop(&mut self) {
        let place = CString::new(self.place.as_os_str().as_bytes()).unwrap();
        // SAFETY: the text ends with a NUL byte and lives until the call returns.
        unsafe {
            libc::umount2(place.as_ptr(), libc::MNT_DETACH);
        }
    }
}

struct FuseServer {
    device: File,
    /// The files known to the kernel, by their numbers.
    paths: BTreeMap<u64, PathBuf>,
    open: BTreeMap<u64, File>,
}

/// A request of the kernel.
struct FuseRequest<'a> {
    node: u64,
    body: &'a [u8],
}

impl FuseRequest<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.body[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.body[at..at + 8].try_into().unwrap())
    }

    /// Returns the names in the body of the request from a position on.
    fn names(&self, at: usize) -> Vec<String> {
        let names = self.body[at..]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty());
        names
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect()
    }
}

type FuseReply = Result<Vec<u8>, i32>;

impl FuseServer {
    /// Answers one request. Returns `None` when the mount is gone.
    fn answer_next(&mut self) -> Option<()> {
        let mut asked = vec![0; HEADER_BYTES + 4_096 + WRITE_BYTES_MAX as usize];
        let bytes = match self.device.read(&mut asked) {
            Ok(bytes) => bytes,
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Some(()),
            Err(_) => return None,
        };
        let header = FuseRequest {
            node: 0,
            body: &asked[..HEADER_BYTES],
        };
        let (call, unique) = (header.u32(4), header.u64(8));
        let question = FuseRequest {
            node: header.u64(16),
            body: &asked[HEADER_BYTES..bytes],
        };
        let answer = self.answer(call, &question)?;
        let (error, content) = match answer {
            Ok(content) => (0, content),
            Err(error) => (-error, Vec::new()),
        };
        let length = u32::try_from(16 + content.len()).unwrap();
        let head = [
            &length.to_ne_bytes()[..],
            &error.to_ne_bytes(),
            &unique.to_ne_bytes(),
        ]
        .concat();
        // The caller may have stopped waiting.
        let _gone = self.device.write(&[head, content].concat());
        Some(())
    }

    /// Returns the answer to the kernel. Some calls expect no answer. The answer returned for them here is never read.
    fn answer(&mut self, call: u32, asked: &FuseRequest<'_>) -> Option<FuseReply> {
        let here = self.paths.get(&asked.node).cloned().unwrap_or_default();
        let names = |at: usize| asked.names(at);
        Some(match call {
            26 => Ok(init()),
            38 => return None,
            1 => self.entry(found(&here, &names(0)[0])),
            3 => attributes_of(&here),
            4 => set(&here, asked),
            5 => std::fs::read_link(&here)
                .map(|target| target.as_os_str().as_bytes().to_vec())
                .map_err(number),
            9 => {
                let place = found(&here, &names(8)[0]);
                done(std::fs::create_dir(&place)).and_then(|_| self.entry(place))
            }
            8 => {
                let place = found(&here, &names(16)[0]);
                done(
                    OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .mode(asked.u32(0))
                        .open(&place),
                )
                .and_then(|_| self.entry(place))
            }
            35 => {
                let place = found(&here, &names(16)[0]);
                let mut options = OpenOptions::new();
                options.read(true).write(true).create(true).mode(asked.u32(4));
                if asked.u32(0) & libc::O_EXCL as u32 != 0 {
                    options.create_new(true);
                }
                match options.open(&place) {
                    Ok(file) => self.entry(place).map(|entry| [entry, self.opened(file)].concat()),
                    Err(error) => Err(number(error)),
                }
            }
            10 => done(std::fs::remove_file(found(&here, &names(0)[0]))),
            11 => done(std::fs::remove_dir(found(&here, &names(0)[0]))),
            12 | 45 => {
                let names = names(if call == 12 { 8 } else { 16 });
                let to = self.paths.get(&asked.u64(0)).cloned().unwrap_or_default();
                // The existing name stays, as on a Mac.
                done(std::fs::rename(found(&here, &names[0]), found(&to, &names[1])))
            }
            14 => match OpenOptions::new()
                .read(true)
                .write(true)
                .open(&here)
                .or_else(|_| File::open(&here))
            {
                Ok(file) => Ok(self.opened(file)),
                Err(error) => Err(number(error)),
            },
            27 => Ok([0; 16].to_vec()),
            15 => {
                let mut content = vec![0; asked.u32(16) as usize];
                let read = self
                    .open
                    .get(&asked.u64(0))
                    .map(|file| file.read_at(&mut content, asked.u64(8)));
                match read {
                    Some(Ok(bytes)) => Ok(content[..bytes].to_vec()),
                    _ => Err(libc::EIO),
                }
            }
            16 => {
                let content = &asked.body[40..];
                match self
                    .open
                    .get(&asked.u64(0))
                    .map(|file| file.write_all_at(content, asked.u64(8)))
                {
                    Some(Ok(())) => Ok([&asked.u32(16).to_ne_bytes()[..], &[0; 4]].concat()),
                    _ => Err(libc::EIO),
                }
            }
            28 => listed(&here, asked.u64(8), asked.u32(16) as usize),
            18 => {
                self.open.remove(&asked.u64(0));
                Ok(Vec::new())
            }
            17 => Ok(vec![0; 80]),
            20 | 25 | 29 | 30 | 34 => Ok(Vec::new()),
            _ => Err(libc::ENOSYS),
        })
    }

    fn entry(&mut self, place: PathBuf) -> FuseReply {
        let about = std::fs::symlink_metadata(&place).map_err(number)?;
        self.paths.insert(about.ino(), place);
        let mut entry = [about.ino(), 0, 0, 0].map(u64::to_ne_bytes).concat();
        entry.extend([0; 8]);
        entry.extend(attributes(&about));
        Ok(entry)
    }

    /// Opens a file without caching by the kernel.
    fn opened(&mut self, file: File) -> Vec<u8> {
        let handle = self.open.keys().last().map_or(1, |last| last + 1);
        self.open.insert(handle, file);
        [&handle.to_ne_bytes()[..], &1_u32.to_ne_bytes(), &[0; 4]].concat()
    }
}

/// Returns the existing name in any spelling, or else the name itself.
fn found(directory: &Path, name: &str) -> PathBuf {
    let names = std::fs::read_dir(directory).into_iter().flatten();
    let alike = names
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .find(|other| key(other) == key(name));
    directory.join(alike.as_deref().unwrap_or(name))
}

/// Returns the folded form of a name. It does not use the folding of the product.
fn key(name: &str) -> String {
    let whole = name.trim_end_matches(['.', ' ']).nfd();
    let seen = whole.filter(|character| !['\u{200b}', '\u{200d}', '\u{feff}'].contains(character));
    let lower = seen.flat_map(char::to_lowercase);
    lower.collect::<String>().replace('\u{df}', "ss")
}

fn init() -> Vec<u8> {
    let mut answer = [7_u32, 31, 0, 0].map(u32::to_ne_bytes).concat();
    answer.extend([16_u16, 12].map(u16::to_ne_bytes).concat());
    answer.extend([WRITE_BYTES_MAX, 1].map(u32::to_ne_bytes).concat());
    answer.resize(64, 0);
    answer
}

fn attributes_of(place: &Path) -> FuseReply {
    let about = std::fs::symlink_metadata(place).map_err(number)?;
    Ok([vec![0; 16], attributes(&about)].concat())
}

fn attributes(about: &Metadata) -> Vec<u8> {
    let times = [about.atime(), about.mtime(), about.ctime()].map(i64::unsigned_abs);
    let mut said = [about.ino(), about.size(), about.blocks()]
        .map(u64::to_ne_bytes)
        .concat();
    said.extend(times.map(u64::to_ne_bytes).concat());
    let nanoseconds = [about.atime_nsec(), about.mtime_nsec(), about.ctime_nsec()];
    said.extend(
        nanoseconds
            .map(|time| u32::try_from(time).unwrap().to_ne_bytes())
            .concat(),
    );
    let nlink = u32::try_from(about.nlink()).unwrap();
    let numbers = [about.mode(), nlink, about.uid(), about.gid(), 0, 4_096, 0];
    said.extend(numbers.map(u32::to_ne_bytes).concat());
    said
}

fn set(place: &Path, asked: &FuseRequest<'_>) -> FuseReply {
    let valid = asked.u32(0);
    if valid & 1 != 0 {
        let mode = std::fs::Permissions::from_mode(asked.u32(68) & 0o7777);
        std::fs::set_permissions(place, mode).map_err(number)?;
    }
    if valid & 8 != 0 {
        let file = OpenOptions::new().write(true).open(place).map_err(number)?;
        file.set_len(asked.u64(16)).map_err(number)?;
    }
    attributes_of(place)
}

/// Returns a part of the list of a directory, from an entry number on.
fn listed(place: &Path, from: u64, bytes_max: usize) -> FuseReply {
    let mut names: Vec<(u64, String)> = std::fs::read_dir(place)
        .map_err(number)?
        .map(|entry| {
            let entry = entry.unwrap();
            (
                entry.metadata().unwrap().ino(),
                entry.file_name().to_string_lossy().into_owned(),
            )
        })
        .collect();
    names.sort();
    let mut said = Vec::new();
    for (at, (inode, name)) in names.iter().enumerate().skip(usize::try_from(from).unwrap()) {
        let mut entry = [*inode, at as u64 + 1].map(u64::to_ne_bytes).concat();
        // The kind is omitted. A caller that needs it requests it.
        entry.extend(
            [u32::try_from(name.len()).unwrap(), 0]
                .map(u32::to_ne_bytes)
                .concat(),
        );
        entry.extend(name.as_bytes());
        entry.resize(entry.len().next_multiple_of(8), 0);
        if said.len() + entry.len() > bytes_max {
            break;
        }
        said.extend(entry);
    }
    Ok(said)
}

fn done<T>(result: std::io::Result<T>) -> FuseReply {
    result.map(|_| Vec::new()).map_err(number)
}

fn number(error: Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}
