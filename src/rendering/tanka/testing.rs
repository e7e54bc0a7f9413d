//! Shared test support: trees in memory, and an evaluator for programs that are plain JSON.

use super::{Evaluate, Listing};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use crate::rendering::jsonnet::{
    CrossCheckMode, CrossCheckResult, EntryPoint, EvalError, EvalRequest, Evaluation, Import, KnownDifference,
};
use crate::state::workspace::contract::{CONTRACT_FILES, assert_reads, search_files};
use crate::state::workspace::{Match, Tree, TreeEntry, TreeError};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

pub(super) fn listing(files: &[&str]) -> Listing {
    let mut files: Vec<RepoPath> = files.iter().map(|file| path(file)).collect();
    files.sort();
    Listing::new(Arc::new(files))
}

/// A read-only tree. The content `-> target` is a symlink.
#[derive(Clone, Debug)]
pub(crate) struct ReadOnlyTree(BTreeMap<RepoPath, String>);

impl ReadOnlyTree {
    pub(crate) fn new(files: &[(&str, &str)]) -> Arc<Self> {
        let files = files
            .iter()
            .map(|(name, content)| (path(name), (*content).to_owned()));
        Arc::new(Self(files.collect()))
    }

    /// Returns the tree with one file written, or deleted.
    pub(crate) fn with(&self, name: &str, content: Option<&str>) -> Self {
        let mut files = self.0.clone();
        match content {
            Some(content) => files.insert(path(name), content.to_owned()),
            None => files.remove(&path(name)),
        };
        Self(files)
    }

    fn real(&self, path: &RepoPath) -> Result<String, TreeError> {
        let wrong = |what| TreeError::WrongKind {
            path: path.clone(),
            what,
        };
        let mut remaining: Vec<String> = path.as_str().rsplit('/').map(str::to_owned).collect();
        let (mut walked, mut links) = (Vec::new(), 0);
        while let Some(component) = remaining.pop() {
            if component == ".." {
                walked
                    .pop()
                    .ok_or_else(|| wrong("symlink that leaves the repository"))?;
                continue;
            }
            walked.push(component);
            let here = RepoPath::parse(&walked.join("/")).map_err(|_| wrong("no path"))?;
            let target = self.0.get(&here).and_then(|content| content.strip_prefix("-> "));
            if let Some(target) = target {
                links += 1;
                if links > 8 {
                    return Err(wrong("symlink that leads in a circle"));
                }
                walked.pop();
                remaining.extend(target.rsplit('/').map(str::to_owned));
            }
        }
        Ok(walked.join("/"))
    }

    fn has_below(&self, directory: &str) -> bool {
        let Ok(first) = RepoPath::parse(directory) else {
            return directory.is_empty();
        };
        let prefix = format!("{directory}/");
        let after = self.0.range(first..).map(|(path, _)| path.as_str());
        let mut after = after.skip_while(|path| *path < prefix.as_str());
        after.next().is_some_and(|path| path.starts_with(&prefix))
    }

    fn read_only(path: &RepoPath) -> TreeError {
        TreeError::Refused {
            path: path.clone(),
            why: "this tree is only read",
        }
    }
}

impl Tree for ReadOnlyTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let real = self.real(path)?;
        let found = RepoPath::parse(&real).ok();
        let content = match found.and_then(|found| self.0.get(&found)) {
            Some(content) => content,
            None if self.has_below(&real) => {
                return Err(TreeError::WrongKind {
                    path: path.clone(),
                    what: "directory",
                });
            }
            None => {
                return Err(TreeError::NotFound {
                    path: path.clone(),
                    similar: Vec::new(),
                });
            }
        };
        Ok(FileVersion {
            content: Bytes::from(content.clone()),
            mode: FileMode::Regular,
        })
    }

    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        RepoPath::parse(&ReadOnlyTree::real(self, path)?).map_err(|_| ReadOnlyTree::read_only(path))
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        let entry = self.0.get(path).map(|content| match content.strip_prefix("-> ") {
            Some(target) => TreeEntry::Symlink(Bytes::from(target.to_owned())),
            None => TreeEntry::File,
        });
        Ok(entry.or_else(|| self.has_below(path.as_str()).then_some(TreeEntry::Directory)))
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::new(self.0.keys().cloned().collect()))
    }

    fn write(&self, path: &RepoPath, _content: Bytes) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let below = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let files = self.0.keys().filter(|path| path.as_str().starts_with(&below));
        Ok(files.cloned().collect())
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        let stored = self.0.get(path).map(|content| match content.strip_prefix("-> ") {
            Some(target) => (target, FileMode::Symlink),
            None => (content.as_str(), FileMode::Regular),
        });
        Ok(stored.map(|(content, mode)| FileVersion {
            content: Bytes::from(content.to_owned()),
            mode,
        }))
    }

    fn put(&self, path: &RepoPath, _after: Option<FileVersion>) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        let files = self.0.iter().filter(|(path, _)| accepts(path.as_str()));
        let files = files.map(|(path, content)| (path, content.as_bytes()));
        Ok(search_files(files, needle, offset, limit))
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        Ok(Vec::new())
    }
}

/// Evaluates programs that are JSON, in which `import 'x'` stands for the file `lib/x`. Answers a script with the
/// environment in the file, if it is one. The second engine returns another value for a program with `DISPUTED`.
#[derive(Debug, Default)]
pub(crate) struct JsonEvaluator {
    pub(crate) requests: Mutex<Vec<String>>,
}

#[async_trait]
impl Evaluate for JsonEvaluator {
    async fn evaluate(
        &self,
        request: EvalRequest,
        cancel: &CancellationToken,
    ) -> Result<Evaluation, EvalError> {
        if cancel.is_cancelled() {
            return Err(EvalError::Cancelled);
        }
        let (entry, is_script) = match &request.entry {
            EntryPoint::File(entry) => (entry.clone(), false),
            EntryPoint::Snippet { name, .. } => {
                (path(&format!("{}/main.jsonnet", name.parent().unwrap())), true)
            }
        };
        let read = |path: &RepoPath| {
            let version = request.tree.read(path).unwrap();
            String::from_utf8(version.content.to_vec()).unwrap()
        };
        let mut text = read(&entry);
        let mut imports = Vec::new();
        while let Some((before, rest)) = text.split_once("import '") {
            let (name, after) = rest.split_once('\'').unwrap();
            let library = path(&format!("lib/{name}"));
            imports.push(Import::Read {
                path: library.clone(),
                blob: String::new(),
            });
            text = format!("{before}{}{after}", read(&library));
        }
        let wants = request.cross_check == CrossCheckMode::On;
        let is_second = request.cross_check == CrossCheckMode::SecondEngineOnly;
        if !is_script {
            let mark = match request.cross_check {
                CrossCheckMode::Off => "",
                CrossCheckMode::On => " cross-checked",
                CrossCheckMode::SecondEngineOnly => " by the second",
            };
            self.requests.lock().unwrap().push(format!("{entry}{mark}"));
        }
        let value: Value = serde_json::from_str(&text).map_err(|error| EvalError::Runtime {
            message: format!("{error}: {text}"),
            trace: Vec::new(),
        })?;
        let cross_check = match (wants, text.contains("DISPUTED")) {
            (false, _) => CrossCheckResult::NotRun,
            (true, false) => CrossCheckResult::Agrees,
            (true, true) => CrossCheckResult::Differs {
                path: "$.a".to_owned(),
                first: "\"hunter2\"".to_owned(),
                second: "\"hunter3\"".to_owned(),
                known: text.contains("KNOWN").then_some(KnownDifference::Digits),
            },
        };
        let json = match is_script {
            true => format!(
                "[{}]",
                if value["kind"] == "Environment" {
                    text
                } else {
                    String::new()
                }
            ),
            false if is_second && text.contains("DISPUTED") => "{}".to_owned(),
            false => value.to_string(),
        };
        Ok(Evaluation {
            json: Bytes::from(json),
            imports: imports.into(),
            cross_check,
        })
    }
}

#[test]
fn the_read_only_tree_keeps_the_reading_half_of_the_contract_of_trees() {
    assert_reads(ReadOnlyTree::new(&CONTRACT_FILES).as_ref());
}
