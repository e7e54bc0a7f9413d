//! Evaluations in the real sandbox: the program itself is the sandbox worker.

use crate::support::built::built;
use drydock::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use drydock::rendering::jsonnet::{
    CrossCheckMode, EntryPoint, EvalError, EvalLimits, EvalRequest, Evaluation, Evaluator,
};
use drydock::rendering::sandbox::{LayerName, ProgramPath};
use drydock::state::workspace::{Match, Tree, TreeError};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A tree of files that cannot be changed.
#[derive(Debug, Default)]
pub(crate) struct TestTree(BTreeMap<RepoPath, bytes::Bytes>);

impl TestTree {
    pub(crate) fn from_texts<const N: usize>(files: [(&str, &str); N]) -> Arc<dyn Tree> {
        Self::from_pairs(files.into_iter().map(|(name, text)| (path(name), text)))
    }

    /// Adds a file that is not text.
    pub(crate) fn with_bytes<const N: usize>(
        files: [(&str, &str); N],
        name: &str,
        content: Vec<u8>,
    ) -> Arc<dyn Tree> {
        let files = files.map(|(name, text)| (path(name), bytes::Bytes::from(text.to_owned())));
        let bytes = (path(name), content.into());
        Arc::new(Self(files.into_iter().chain([bytes]).collect()))
    }

    pub(crate) fn from_pairs<'a>(files: impl Iterator<Item = (RepoPath, &'a str)>) -> Arc<dyn Tree> {
        let files = files.map(|(name, text)| (name, bytes::Bytes::from(text.to_owned())));
        Arc::new(Self(files.collect()))
    }
}

impl Tree for TestTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        if let Some(content) = self.0.get(path) {
            let content = content.clone();
            let mode = FileMode::Regular;
            return Ok(FileVersion { content, mode });
        }
        let below = format!("{path}/");
        match self.0.keys().any(|file| file.as_str().starts_with(&below)) {
            true => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            false => Err(TreeError::NotFound {
                path: path.clone(),
                similar: Vec::new(),
            }),
        }
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::new(self.0.keys().cloned().collect()))
    }

    fn write(&self, path: &RepoPath, _: bytes::Bytes) -> Result<(), TreeError> {
        panic!("an evaluation writes `{path}`")
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        panic!("an evaluation deletes `{path}`")
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let below = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let files = self.0.keys().filter(|file| file.as_str().starts_with(&below));
        Ok(files.cloned().collect())
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        panic!("an evaluation looks at `{path}` unfollowed")
    }

    fn put(&self, path: &RepoPath, _: Option<FileVersion>) -> Result<(), TreeError> {
        panic!("an evaluation puts `{path}`")
    }

    fn search(
        &self,
        _: &dyn Fn(&str) -> bool,
        _: &str,
        _: usize,
        _: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        panic!("an evaluation searches")
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        panic!("an evaluation asks what has changed")
    }
}

pub(crate) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).expect("a path")
}

/// Returns the program of these tests.
pub(crate) fn program() -> ProgramPath {
    ProgramPath::at(built())
}

pub(crate) fn evaluator(limits: EvalLimits) -> Evaluator {
    Evaluator::for_program(program(), limits, LayerName::ALL.to_vec()).expect("an evaluator")
}

/// Returns a request for a text, named like a file in the root.
pub(crate) fn snippet_request(text: &str) -> EvalRequest {
    EvalRequest {
        tree: TestTree::from_texts([]),
        entry: EntryPoint::Snippet {
            name: path("main.jsonnet"),
            text: text.to_owned(),
        },
        jpath: Vec::new(),
        ext_code: BTreeMap::new(),
        tla_code: BTreeMap::new(),
        max_stack: 0,
        cross_check: CrossCheckMode::Off,
    }
}

/// Returns a request for a file of a tree.
pub(crate) fn file_request(tree: Arc<dyn Tree>, name: &str) -> EvalRequest {
    EvalRequest {
        tree,
        entry: EntryPoint::File(path(name)),
        ..snippet_request("")
    }
}

pub(crate) async fn evaluate(evaluator: &Evaluator, request: EvalRequest) -> Result<Evaluation, EvalError> {
    evaluator.evaluate(request, &CancellationToken::new()).await
}

/// Evaluates a request and returns the value as text.
pub(crate) async fn evaluate_to_json(
    evaluator: &Evaluator,
    request: EvalRequest,
) -> Result<String, EvalError> {
    let evaluated = evaluate(evaluator, request).await?;
    Ok(String::from_utf8(evaluated.json.to_vec()).expect("JSON is UTF-8"))
}
