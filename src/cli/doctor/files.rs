//! The local files of a server: secret files, the data directory and its disk.

use super::{Correction, Diagnosis};
use crate::base::config::{Config, ConfigSources};
use crate::state::store::{self, GroupAccess};
use rustix::fs::{Access, access, statvfs};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// The free space below which nothing can be stored soon.
const FREE_BYTES_MIN: u64 = 200 << 20;
/// The free space below which a warning is given.
const FREE_BYTES_WANTED: u64 = 2 << 30;
const SECRET_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// Checks that each secret file exists and that nobody else can read it.
pub(super) fn check_secret_files(sources: &ConfigSources, correction: Correction) -> Vec<Diagnosis> {
    let files = Config::secret_files(sources).into_iter();
    files.map(|file| check_secret_file(&file, correction)).collect()
}

fn check_secret_file(file: &Path, correction: Correction) -> Diagnosis {
    let check = format!("secret file {}", file.display());
    let about = match std::fs::metadata(file) {
        Ok(about) => about,
        Err(error) => {
            return Diagnosis::failed(
                check,
                error.to_string(),
                "write the secret into this file, with mode 0600",
            );
        }
    };
    if !about.is_file() {
        return Diagnosis::failed(
            check,
            "is not a regular file",
            "write the secret into a file, with mode 0600",
        );
    }
    let mode = about.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Diagnosis::fine(check, format!("mode {mode:04o}"));
    }
    let why = format!("others can read it: mode {mode:04o}");
    let fix = format!("run: chmod 600 {}", file.display());
    if correction == Correction::Report {
        return Diagnosis::failed(check, why, &fix);
    }
    match std::fs::set_permissions(file, std::fs::Permissions::from_mode(SECRET_MODE)) {
        Ok(()) => Diagnosis::fixed(check, format!("mode {mode:04o} is now {SECRET_MODE:04o}")),
        Err(error) => Diagnosis::failed(check, format!("{why}, and it cannot be changed: {error}"), &fix),
    }
}

/// Checks the data directory: that it exists or can be created, its mode, and the space of its disk.
pub(super) fn check_data_directory(sources: &ConfigSources, correction: Correction) -> Vec<Diagnosis> {
    let Ok(settings) = Config::for_operator(sources.clone()) else {
        // The problem is reported with the configuration.
        return Vec::new();
    };
    let directory = settings.data.directory;
    let group = GroupAccess::from_setting(settings.data.group_access);
    let state = match store::check_directory(&directory, group) {
        Ok(Some(mode)) => writable(&directory, format!("mode {mode:04o}")),
        Ok(None) => absent(&directory, correction),
        // Its text says what to do. A mode is not changed: the path may be a directory of others by mistake.
        Err(error) => Diagnosis::failed(
            format!("data directory {}", directory.display()),
            error.to_string(),
            "correct the directory or data.directory as this line says",
        ),
    };
    [state].into_iter().chain(space(&directory)).collect()
}

fn writable(directory: &Path, state: String) -> Diagnosis {
    let check = format!("data directory {}", directory.display());
    match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Diagnosis::fine(check, state),
        Err(error) => Diagnosis::failed(
            check,
            format!("this user cannot write there: {error}"),
            "give it to the user that runs Drydock, on a file system that is not read-only",
        ),
    }
}

fn absent(directory: &Path, correction: Correction) -> Diagnosis {
    let check = format!("data directory {}", directory.display());
    let fix = "create it, for the user that runs Drydock only";
    if correction == Correction::Fix {
        let made = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory);
        return match made {
            Ok(()) => Diagnosis::fixed(check, "created, for this user only"),
            Err(error) => Diagnosis::failed(check, format!("it cannot be created: {error}"), fix),
        };
    }
    match nearest(directory).map(|above| access(above, Access::WRITE_OK | Access::EXEC_OK)) {
        Some(Ok(())) => Diagnosis::fine(check, "created at the first start, for this user only"),
        Some(Err(error)) => Diagnosis::failed(check, format!("it cannot be created: {error}"), fix),
        None => Diagnosis::failed(check, "it cannot be created", fix),
    }
}

/// Returns the nearest directory above a path that exists.
fn nearest(path: &Path) -> Option<&Path> {
    path.ancestors()
        .skip(1)
        .find_map(|above| match above.as_os_str().is_empty() {
            true => Some(Path::new(".")),
            false => above.is_dir().then_some(above),
        })
}

fn space(directory: &Path) -> Option<Diagnosis> {
    let place = match directory.is_dir() {
        true => directory,
        false => nearest(directory)?,
    };
    let about = statvfs(place).ok()?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let detail = format!("{} MiB are free", free >> 20);
    let fix = "free some space, or shorten [retention] and run `drydock data prune`";
    Some(match free {
        free if free < FREE_BYTES_MIN => Diagnosis::failed("disk", detail, fix),
        free if free < FREE_BYTES_WANTED => Diagnosis::warning("disk", detail, fix),
        _ => Diagnosis::fine("disk", detail),
    })
}
