//! The files of a tree that are copied for an external program: those of one chart, or of one kustomization and its
//! local bases. The program sees no other files of the repository.

use crate::base::model::RepoPath;
use crate::rendering::jsonnet::{path, yaml_documents};
use bytes::Bytes;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Files of one run.
const FILES_MAX: usize = 5_000;
/// Bytes of all files of one run.
const BYTES_MAX: usize = 64 << 20;
/// Bases of one kustomization, including bases of bases.
const BASES_MAX: usize = 256;
/// The file names of a kustomization.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// The fields of a kustomization that can name other kustomizations.
const BASES: [&str; 3] = ["resources", "bases", "components"];

/// The files of one run, by their paths from the root of the tree.
pub type Copies = BTreeMap<RepoPath, Bytes>;

/// A source of files.
pub trait CopySource {
    /// Returns all files below a directory.
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String>;

    /// Reads a file; `None` if external programs may not read it.
    fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String>;
}

/// Returns the files of a chart: its directory, or one archive.
pub fn chart(source: &mut dyn CopySource, chart: &str) -> Result<Copies, String> {
    let mut copies = Copies::new();
    let path = RepoPath::parse(chart).map_err(|error| error.to_string())?;
    if path.as_str().ends_with(".tgz") {
        take(source, &mut copies, vec![path])?;
        return Ok(copies);
    }
    let files = source.below(path.as_str())?;
    take(source, &mut copies, files)?;
    match copies.keys().any(|file| is_in(file, chart, "Chart.yaml")) {
        true => Ok(copies),
        false => Err(format!("there is no `{chart}/Chart.yaml`")),
    }
}

/// Returns the files of a kustomization and of all its bases. Each base must be in the repository.
pub(super) fn kustomization(source: &mut dyn CopySource, directory: &str) -> Result<Copies, String> {
    let mut copies = Copies::new();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        if !seen.insert(directory.clone()) {
            continue;
        }
        if seen.len() > BASES_MAX {
            return Err(format!("it is built on more than {BASES_MAX} kustomizations"));
        }
        let path = RepoPath::parse(&directory).map_err(|error| error.to_string())?;
        let files = source.below(path.as_str())?;
        take(source, &mut copies, files)?;
        let own = KUSTOMIZATIONS
            .into_iter()
            .find_map(|name| copies.iter().find(|(file, _)| is_in(file, &directory, name)));
        let Some((file, text)) = own else {
            return Err(format!(
                "there is no `{directory}/kustomization.yaml` in the repository; remote bases are not allowed"
            ));
        };
        let bases = bases(file, text, &directory, &copies)?;
        waiting.extend(bases);
    }
    Ok(copies)
}

/// Returns the directories that a kustomization names. A name that is neither a file nor a directory of the repository
/// could only be a remote address.
fn bases(file: &RepoPath, text: &[u8], directory: &str, copies: &Copies) -> Result<Vec<String>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("`{file}`: {why}");
    let text = std::str::from_utf8(text).map_err(|error| wrong(&error))?;
    let documents = yaml_documents(text).map_err(|error| wrong(&error))?;
    let mut bases = Vec::new();
    for field in documents
        .iter()
        .flat_map(|document| BASES.map(|name| document.get(name)))
    {
        let entries = field.and_then(Value::as_array).into_iter().flatten();
        for entry in entries.filter_map(Value::as_str) {
            let Some(meant) = path::clean(directory, entry) else {
                return Err(wrong(&format_args!("`{entry}` is outside the repository")));
            };
            if copies.keys().any(|copy| copy.as_str() == meant) {
                continue;
            }
            if entry.contains("://") || RepoPath::parse(&meant).is_err() {
                return Err(wrong(&format_args!("`{entry}`: remote bases are not allowed")));
            }
            bases.push(meant);
        }
    }
    Ok(bases)
}

fn take(source: &mut dyn CopySource, copies: &mut Copies, files: Vec<RepoPath>) -> Result<(), String> {
    let mut bytes: usize = copies.values().map(Bytes::len).sum();
    for file in files {
        if copies.contains_key(&file) {
            continue;
        }
        if let Some(content) = source.read(&file)? {
            bytes = bytes.saturating_add(content.len());
            copies.insert(file, content);
        }
        if copies.len() > FILES_MAX || bytes > BYTES_MAX {
            let mebibytes = BYTES_MAX >> 20;
            return Err(format!("it has more than {FILES_MAX} files or {mebibytes} MiB"));
        }
    }
    Ok(())
}

fn is_in(file: &RepoPath, directory: &str, name: &str) -> bool {
    file.as_str()
        .strip_prefix(directory)
        .and_then(|rest| rest.strip_prefix('/'))
        .is_some_and(|rest| rest == name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{CopySource, chart, kustomization};
    use crate::base::model::RepoPath;
    use bytes::Bytes;
    use std::collections::BTreeMap;

    struct Files(BTreeMap<&'static str, &'static str>);

    impl CopySource for Files {
        fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String> {
            let prefix = format!("{directory}/");
            let files = self.0.keys().filter(|path| path.starts_with(&prefix));
            Ok(files.map(|path| RepoPath::parse(path).unwrap()).collect())
        }

        fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String> {
            // The evaluator treats files with secrets in the same way.
            let text = self.0.get(path.as_str()).filter(|_| path.file_name() != ".env");
            Ok(text.map(|text| Bytes::from_static(text.as_bytes())))
        }
    }

    fn names(copies: Result<super::Copies, String>) -> Result<Vec<String>, String> {
        Ok(copies?.keys().map(ToString::to_string).collect())
    }

    /// T54: a text that the server parses is bounded before it becomes values.
    #[test]
    fn a_kustomization_that_takes_much_memory_is_refused() {
        let open: String = (0..120).map(|level| format!("&a{level} [")).collect();
        let nested = format!("resources: {open}{}1{}", "1,".repeat(400_000), "]".repeat(120));
        let large = format!("resources: [{}1]", "1,".repeat(600_000));
        for (text, why) in [
            (nested, "yaml: too many anchors within each other"),
            (large, "yaml: more than 1 MiB"),
        ] {
            let text: &'static str = text.leak();
            let mut files = Files(BTreeMap::from([("k/kustomization.yaml", text)]));
            let error = kustomization(&mut files, "k").unwrap_err();
            assert_eq!(error, format!("`k/kustomization.yaml`: {why}"));
        }
    }

    #[test]
    fn a_chart_copy_holds_only_the_files_of_the_chart() {
        let mut files = Files(BTreeMap::from([
            ("charts/web/Chart.yaml", ""),
            ("charts/web/templates/a.yaml", ""),
            ("charts/web/.env", "TOKEN=x"),
            ("charts/web2/Chart.yaml", ""),
            ("other/Chart.yml", ""),
            ("packed/web-1.tgz", ""),
        ]));
        let expected = ["charts/web/Chart.yaml", "charts/web/templates/a.yaml"];
        assert_eq!(names(chart(&mut files, "charts/web")).unwrap(), expected);
        assert_eq!(
            names(chart(&mut files, "packed/web-1.tgz")).unwrap(),
            ["packed/web-1.tgz"]
        );
        let missing = names(chart(&mut files, "other"));
        assert_eq!(missing, Err("there is no `other/Chart.yaml`".to_owned()));
        for outside in ["../x", "/etc", "", ".git/x"] {
            assert!(chart(&mut files, outside).is_err(), "{outside}");
        }
    }

    #[test]
    fn a_kustomization_is_its_files_and_those_of_its_bases() {
        let mut files = Files(BTreeMap::from([
            (
                "k/dev/kustomization.yaml",
                "resources: [../base, cm.yaml]\ncomponents: [../extra]\n",
            ),
            ("k/dev/cm.yaml", ""),
            ("k/base/kustomization.yml", "resources: [d.yaml]\n"),
            ("k/base/d.yaml", ""),
            ("k/extra/Kustomization", "bases: [../base]\n"),
            ("k/other/kustomization.yaml", ""),
        ]));
        let expected = [
            "k/base/d.yaml",
            "k/base/kustomization.yml",
            "k/dev/cm.yaml",
            "k/dev/kustomization.yaml",
            "k/extra/Kustomization",
        ];
        assert_eq!(names(kustomization(&mut files, "k/dev")).unwrap(), expected);
    }

    /// T51
    #[test]
    fn a_base_that_is_not_in_the_repository_is_refused() {
        for base in [
            "https://evil.example/base",
            "github.com/evil/base?ref=main",
            "git@evil.example:base.git",
            "ssh://git@evil.example/base",
        ] {
            let text: &'static str = format!("resources: ['{base}']\n").leak();
            let mut files = Files(BTreeMap::from([("k/kustomization.yaml", text)]));
            let error = kustomization(&mut files, "k").unwrap_err();
            assert!(error.contains("remote bases are not allowed"), "{base}: {error}");
        }
        let mut files = Files(BTreeMap::from([(
            "k/kustomization.yaml",
            "resources: [../../x]\n",
        )]));
        let error = kustomization(&mut files, "k").unwrap_err();
        assert_eq!(
            error,
            "`k/kustomization.yaml`: `../../x` is outside the repository"
        );
        let error = kustomization(&mut files, "https:/evil.example").unwrap_err();
        assert!(error.contains("remote bases are not allowed"), "{error}");
    }
}
