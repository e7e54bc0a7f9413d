//! A watch over the files of a directory, with the events of Linux.

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// A watch over the files of a directory.
pub(crate) struct FileWatch(OwnedFd);

impl FileWatch {
    pub(crate) fn of(directory: &Path) -> Self {
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        let flags = WatchFlags::OPEN | WatchFlags::CREATE | WatchFlags::MODIFY | WatchFlags::DELETE;
        inotify::add_watch(&watch, directory, flags).unwrap();
        Self(watch)
    }

    /// Returns the files that were opened, created, changed or deleted.
    pub(crate) fn since_the_last_look(&self) -> Vec<String> {
        let mut buffer = [MaybeUninit::uninit(); 4_096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut touched = Vec::new();
        while let Ok(event) = reader.next() {
            // Listing a directory opens it as well. Only its files count.
            if event.events().contains(ReadFlags::ISDIR) {
                continue;
            }
            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
            touched.push(format!("{:?} {}", event.events(), name.unwrap_or_default()));
        }
        touched
    }
}
