//! What tests share: trees in memory, and an evaluator for programs that are plain JSON.

use super::{Evaluate, Listing};
use crate::jsonnet::{Entry, EvalError, Evaluated, Request, SecondOpinion};
use crate::model::{FileChange, FileVersion, Mode, RepoPath};
use crate::workspace::{Match, Tree, TreeError};
use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

pub(super) fn listing(files: &[&str]) -> Listing {
    let mut files: Vec<RepoPath> = files.iter().map(|file| path(file)).collect();
    files.sort();
    Listing::new(Arc::new(files))
}

/// A tree that only lists and reads.
#[derive(Debug)]
pub(crate) struct Files(BTreeMap<RepoPath, String>);

impl Files {
    pub(crate) fn new(files: &[(&str, &str)]) -> Arc<Self> {
        let files = files
            .iter()
            .map(|(name, content)| (path(name), (*content).to_owned()));
        Arc::new(Self(files.collect()))
    }

    fn read_only(path: &RepoPath) -> TreeError {
        TreeError::Refused {
            path: path.clone(),
            why: "this tree is only read",
        }
    }
}

impl Tree for Files {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let content = self.0.get(path).ok_or_else(|| TreeError::NotFound {
            path: path.clone(),
            similar: Vec::new(),
        })?;
        Ok(FileVersion {
            content: Bytes::from(content.clone()),
            mode: Mode::Regular,
        })
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::new(self.0.keys().cloned().collect()))
    }

    fn write(&self, path: &RepoPath, _content: Bytes) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn search(
        &self,
        _glob: &globset::GlobMatcher,
        _needle: &str,
        _offset: usize,
        _limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        Ok((Vec::new(), 0))
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        Ok(Vec::new())
    }
}

/// Takes the `main.jsonnet` of the asked directory for JSON. A script is answered with the file's
/// environment, if it is one.
#[derive(Debug)]
pub(crate) struct JsonFiles;

#[async_trait]
impl Evaluate for JsonFiles {
    async fn evaluate(&self, request: Request, cancel: &CancellationToken) -> Result<Evaluated, EvalError> {
        if cancel.is_cancelled() {
            return Err(EvalError::Cancelled);
        }
        let (entry, is_script) = match &request.entry {
            Entry::File(entry) => (entry.clone(), false),
            Entry::Snippet { name, .. } => (path(&format!("{}/main.jsonnet", name.parent().unwrap())), true),
        };
        let text = request.tree.read(&entry).unwrap().content;
        let value: Value = serde_json::from_slice(&text).map_err(|err| EvalError::Runtime {
            message: err.to_string(),
            trace: Vec::new(),
        })?;
        let json = match is_script {
            true if value["kind"] == "Environment" => format!("[{value}]"),
            true => "[]".to_owned(),
            false => value.to_string(),
        };
        Ok(Evaluated {
            json: Bytes::from(json),
            imports: Vec::new(),
            second_opinion: SecondOpinion::NotAsked,
        })
    }
}
