//! Removal of unused mirrors. A repository that was removed from the configuration keeps its mirror for a while,
//! because it may come back. After that, the mirror and its packed commits are removed.

#![allow(clippy::disallowed_methods, reason = "mirrors are files of this module")]

use jiff::Timestamp;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Suffix of a file that records since when a mirror is unused.
const UNUSED: &str = ".unused";
/// Suffix of a directory that is being removed.
const GONE: &str = ".gone";
/// Suffixes of the files and directories of a repository in `mirrors`.
const MIRROR_SUFFIXES: [&str; 4] = [".git.unfinished", ".git", UNUSED, GONE];

/// Repositories that are not configured, and their files on disk.
#[derive(Debug)]
pub struct UnusedMirrors {
    mirrors: PathBuf,
    bases: PathBuf,
}

impl UnusedMirrors {
    /// Uses the mirrors and bases below a data directory.
    pub fn new(data: &Path) -> Self {
        Self {
            mirrors: data.join("mirrors"),
            bases: data.join("bases"),
        }
    }

    /// Records which repositories are not configured now, and deletes the record of those that are configured
    /// again.
    pub fn note(&self, configured: &BTreeSet<String>, at: Timestamp) -> std::io::Result<()> {
        for name in self.names()? {
            let note = self.mirrors.join(format!("{name}{UNUSED}"));
            match (configured.contains(&name), note.exists()) {
                (true, true) => std::fs::remove_file(note)?,
                (false, false) => {
                    super::make_private(&self.mirrors)?;
                    std::fs::write(note, at.to_string())?;
                }
                (true, false) | (false, true) => {}
            }
        }
        Ok(())
    }

    /// Returns the repositories that have been unconfigured since before `before`.
    pub fn unused_since(
        &self,
        configured: &BTreeSet<String>,
        before: Timestamp,
    ) -> std::io::Result<Vec<String>> {
        let mut names = self.names()?;
        names.retain(|name| {
            let noted = std::fs::read_to_string(self.mirrors.join(format!("{name}{UNUSED}")));
            let noted = noted.ok().and_then(|text| text.parse::<Timestamp>().ok());
            !configured.contains(name) && noted.is_some_and(|noted| noted < before)
        });
        Ok(names.into_iter().collect())
    }

    /// Removes the files of a repository. An interrupted removal can be resumed. The mirror itself disappears in
    /// one step, so that a partial one is never mistaken for a mirror.
    pub fn remove(&self, name: &str) -> std::io::Result<()> {
        let gone = self.mirrors.join(format!("{name}{GONE}"));
        remove_all(&gone)?;
        match std::fs::rename(self.mirrors.join(format!("{name}.git")), &gone) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        remove_all(&gone)?;
        remove_all(&self.mirrors.join(format!("{name}.git.unfinished")))?;
        remove_all(&self.bases.join(name))?;
        match std::fs::remove_file(self.mirrors.join(format!("{name}{UNUSED}"))) {
            Err(err) if err.kind() != ErrorKind::NotFound => Err(err),
            _ => Ok(()),
        }
    }

    /// Returns the repositories that have files here.
    fn names(&self) -> std::io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for (directory, endings) in [(&self.mirrors, &MIRROR_SUFFIXES[..]), (&self.bases, &[""])] {
            let entries = match std::fs::read_dir(directory) {
                Err(err) if err.kind() == ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let name = entry?.file_name();
                let name = name.to_str().and_then(|name| {
                    let name = endings.iter().find_map(|ending| name.strip_suffix(ending))?;
                    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
                    (!name.is_empty() && name.bytes().all(fits)).then(|| name.to_owned())
                });
                names.extend(name);
            }
        }
        Ok(names)
    }
}

fn remove_all(directory: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(err) if err.kind() != ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}

/// Returns the number of files below a directory and their size in bytes. Links are not followed.
pub fn files_below(directory: &Path) -> std::io::Result<(u64, u64)> {
    let mut waiting = vec![directory.to_owned()];
    let (mut files, mut bytes) = (0, 0);
    while let Some(directory) = waiting.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Err(err) if err.kind() == ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // A file that was removed in the meantime counts as zero.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                waiting.push(entry.path());
            } else {
                files += 1;
                bytes += about.len();
            }
        }
    }
    Ok((files, bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{UnusedMirrors, files_below};
    use jiff::Timestamp;
    use std::collections::BTreeSet;

    fn at(day: i64) -> Timestamp {
        Timestamp::from_second(day * 86_400).unwrap()
    }

    /// R29
    #[test]
    fn a_mirror_goes_when_its_repository_was_not_configured_for_long_enough() {
        let data = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = data.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        for name in ["kept", "gone", "back"] {
            put(&format!("mirrors/{name}.git/objects/pack"));
            put(&format!("bases/{name}/commit.pack"));
        }
        // Left behind by a kill: a first fetch, and a removal that had begun.
        put("mirrors/gone.git.unfinished/x");
        put("mirrors/half.gone/x");
        let unused = UnusedMirrors::new(data.path());
        let only = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let kept = only(&["kept"]);
        unused.note(&kept, at(1)).unwrap();
        assert_eq!(unused.unused_since(&kept, at(1)).unwrap(), Vec::<String>::new());
        assert_eq!(
            unused.unused_since(&kept, at(2)).unwrap(),
            ["back", "gone", "half"]
        );
        // A later note does not change the date, and a repository that is configured again has no date.
        let both = only(&["kept", "back"]);
        unused.note(&both, at(3)).unwrap();
        unused.note(&kept, at(4)).unwrap();
        assert_eq!(unused.unused_since(&kept, at(4)).unwrap(), ["gone", "half"]);
        for name in unused.unused_since(&kept, at(4)).unwrap() {
            unused.remove(&name).unwrap();
            unused.remove(&name).unwrap();
        }
        assert_eq!(unused.unused_since(&kept, at(5)).unwrap(), ["back"]);
        assert_eq!(files_below(&data.path().join("mirrors")).unwrap(), (3, 22));
        assert_eq!(files_below(&data.path().join("bases")).unwrap(), (2, 2));
    }
}
