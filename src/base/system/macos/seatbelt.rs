//! Seatbelt, the sandbox of the system: a profile that denies by default.
#![allow(unsafe_code, reason = "the call of the system has no safe form")]

use super::LayerName;
use std::ffi::{CString, c_char, c_int};
use std::path::Path;

/// The profile of a sandbox worker. The worker may use its open descriptors. It may not open or create files, start
/// programs or call services.
const WORKER_PROFILE: &str = "\
(version 1)
(deny default)
(allow process-info* (target self))
(allow signal (target self))
";

unsafe extern "C" {
    fn sandbox_init(profile: *const c_char, flags: u64, error: *mut *mut c_char) -> c_int;
    fn sandbox_free_error(error: *mut c_char);
}

/// Confines this process permanently as a sandbox worker.
pub(super) fn confine_worker() -> Option<LayerName> {
    confine(WORKER_PROFILE.to_owned())
}

/// Confines this process permanently before it executes one program, which sees one directory and writes a part of it.
pub(super) fn confine_program(
    program: &Path,
    directory: &Path,
    writable: Option<&Path>,
) -> Option<LayerName> {
    confine(profile_of_program(program, directory, writable)?)
}

fn profile_of_program(program: &Path, directory: &Path, writable: Option<&Path>) -> Option<String> {
    // Seatbelt compares paths after it resolves all symbolic links.
    let program = quoted(&program.canonicalize().ok()?)?;
    let directory = quoted(&directory.canonicalize().ok()?)?;
    let writing = match writable {
        None => String::new(),
        Some(place) => {
            let place = quoted(&place.canonicalize().ok()?)?;
            format!("(allow file-write* (subpath {place}))\n")
        }
    };
    Some(format!(
        "(version 1)\n(deny default)\n\
         (allow process-info* (target self))\n(allow signal (target self))\n(allow sysctl-read)\n\
         (allow process-exec (literal {program}))\n\
         (allow file-read* (literal \"/\") (literal {program}) (subpath {directory})\n  \
         (subpath \"/usr/lib\") (subpath \"/System/Library\") (subpath \"/System/Volumes/Preboot/Cryptexes\")\n  \
         (literal \"/dev/null\") (literal \"/dev/urandom\") (literal \"/dev/random\"))\n\
         (allow file-read-metadata)\n\
         (allow file-write-data (literal \"/dev/null\"))\n{writing}"
    ))
}

/// Quotes a path for a profile; `None` if the path is not UTF-8 or contains a control character.
fn quoted(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control))?;
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn confine(profile: String) -> Option<LayerName> {
    let profile = CString::new(profile).ok()?;
    let mut error = std::ptr::null_mut();
    // SAFETY: the profile ends with a zero byte and lives until the call is over; the library that allocated the error
    // text frees it.
    unsafe {
        if sandbox_init(profile.as_ptr(), 0, &raw mut error) == 0 {
            return Some(LayerName::Seatbelt);
        }
        if !error.is_null() {
            sandbox_free_error(error);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{profile_of_program, quoted};
    use std::path::Path;

    #[test]
    fn a_path_cannot_end_the_text_it_stands_in() {
        assert_eq!(quoted(Path::new("/a \"b\\")).unwrap(), "\"/a \\\"b\\\\\"");
        assert_eq!(quoted(Path::new("/a\nb")), None);
    }

    #[test]
    fn a_program_writes_only_where_it_may() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let profile = |writable| profile_of_program(Path::new("/bin/ls"), place.path(), writable).unwrap();
        assert!(!profile(None).contains("file-write*"));
        let home = quoted(&home.canonicalize().unwrap()).unwrap();
        let allowed = format!("(allow file-write* (subpath {home}))");
        assert!(profile(Some(&place.path().join("home"))).contains(&allowed));
    }
}
