//! Rewrites imports from the short names of packages to their names below `vendor/`, like `jb rewrite`:
//! <https://github.com/jsonnet-bundler/jsonnet-bundler/blob/master/tool/rewrite/rewrite.go>. Lines are searched as
//! text, so that comments and strings change too. Everything else stays the same, byte for byte.

use super::error::BundlerError;
use super::file::JsonnetFile;
use super::operation::PreparedOperation;
use super::project::{LOCK_FILE, Project, VENDOR, under};
use crate::base::model::{FileMode, FileVersion};
use memchr::memmem;
use std::collections::BTreeMap;

/// The start of an import of a package, before its quote.
const IMPORT: &[u8] = b"import ";
/// The file name suffixes of programs.
const ENDINGS: [&str; 2] = [".jsonnet", ".libsonnet"];

/// Rewrites every program of a project that imports a locked package by its short name. Files in `vendor/`, ignored
/// files and symlinks are not changed.
pub fn rewrite(project: Project<'_>) -> Result<PreparedOperation, BundlerError> {
    let names = names(&lock(project)?);
    let mut prepared = PreparedOperation::default();
    if names.is_empty() {
        return Ok(prepared);
    }
    let vendor = under(project.directory(), VENDOR);
    if !project.has_directory(&vendor)? {
        return Err(BundlerError::NoVendor(vendor));
    }
    let (inside, vendored) = (under(project.directory(), ""), format!("{vendor}/"));
    let is_program = |path: &str| {
        let rest = path.strip_prefix(&inside);
        let is_inside = rest.is_some_and(|rest| inside.is_empty() || rest.starts_with('/'));
        is_inside && !path.starts_with(&vendored) && ENDINGS.iter().any(|ending| path.ends_with(ending))
    };
    let files = project.tree().files()?;
    for path in files.iter().filter(|path| is_program(path.as_str())) {
        let Some(before) = project.tree().read_stored(path)? else {
            continue;
        };
        if before.mode == FileMode::Symlink {
            continue;
        }
        if let Some(content) = rewritten(&before.content, &names) {
            let after = FileVersion {
                content: content.into(),
                mode: before.mode,
            };
            prepared.changes.insert(path.clone(), Some(after));
        }
    }
    Ok(prepared)
}

fn lock(project: Project<'_>) -> Result<JsonnetFile, BundlerError> {
    let missing = |why: String| BundlerError::NoNames(why);
    match project.file(LOCK_FILE) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => {
            let path = project.path(LOCK_FILE)?;
            Err(missing(format!("open {path}: no such file or directory")))
        }
        Err(BundlerError::File(why)) => Err(missing(why.to_string())),
        Err(err) => Err(err),
    }
}

/// Returns the names below `vendor/` by short name. If several packages have the same short name, the last one is
/// used.
fn names(lock: &JsonnetFile) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let both = lock
        .dependencies
        .iter()
        .map(|package| (package.legacy_name(), package.name()));
    both.filter(|(short, name)| short != name)
        .map(|(short, name)| (short.into_bytes(), name.into_bytes()))
        .collect()
}

/// Returns the text with rewritten imports, or `None` if there is nothing to change.
fn rewritten(text: &[u8], names: &BTreeMap<Vec<u8>, Vec<u8>>) -> Option<Vec<u8>> {
    let mut after = Vec::with_capacity(text.len());
    let mut copied = 0;
    for found in memmem::find_iter(text, IMPORT) {
        let begins = found + IMPORT.len() + 1;
        let quoted = text.get(begins - 1).is_some_and(|byte| is_quote(*byte));
        let rest = text.get(begins..).unwrap_or_default();
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let Some(slash) = line.iter().position(|byte| *byte == b'/') else {
            continue;
        };
        let (short, path) = line.split_at(slash);
        if let Some(name) = names.get(short)
            && quoted
            && path.iter().any(|byte| is_quote(*byte))
        {
            after.extend_from_slice(text.get(copied..begins)?);
            after.extend_from_slice(name);
            copied = begins + slash;
        }
    }
    if copied == 0 {
        return None;
    }
    after.extend_from_slice(text.get(copied..)?);
    Some(after)
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

#[cfg(test)]
mod tests {
    use super::rewritten;
    use std::collections::BTreeMap;

    fn after(text: &str) -> Option<String> {
        let names = [
            ("ksonnet", "github.com/ksonnet/ksonnet"),
            ("c", "example.com/org/c"),
        ];
        let names: BTreeMap<_, _> = names.map(|(short, name)| (short.into(), name.into())).into();
        let after = rewritten(text.as_bytes(), &names);
        after.map(|after| String::from_utf8_lossy(&after).into_owned())
    }

    #[test]
    fn each_import_of_a_line_gets_the_name_of_its_own_package() {
        let line = "(import 'ksonnet/a') + (import \"c/b\") + (import 'd/b') + (import 'ksonnet/d')\n";
        let expected = "(import 'github.com/ksonnet/ksonnet/a') + (import \"example.com/org/c/b\") + (import 'd/b') + \
                        (import 'github.com/ksonnet/ksonnet/d')\n";
        assert_eq!(after(line).as_deref(), Some(expected));
        assert_eq!(after(expected), None);
    }

    #[test]
    fn what_is_no_import_of_a_package_stays_as_it_is() {
        for text in [
            "",
            "import ",
            "import '",
            "import 'ksonnet'",
            "import 'ksonnet/open",
            "import 'ksonnet/open\n'",
            "import 'ksonnet\n/a'",
            "import ksonnet/a'",
            "import 'other/ksonnet/a'",
            "importstr 'ksonnet/a'",
            "import  'ksonnet/a'",
        ] {
            assert_eq!(after(text), None, "{text:?}");
        }
        let mut bytes = b"// \xff import 'c/a'\xfe".to_vec();
        let names = BTreeMap::from([(b"c".to_vec(), b"d/e".to_vec())]);
        let after = rewritten(&bytes, &names);
        bytes.splice(13..14, *b"d/e");
        assert_eq!(after, Some(bytes));
    }
}
