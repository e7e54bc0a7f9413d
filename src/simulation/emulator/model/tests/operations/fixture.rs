//! The parts of a turn beside its models and its journal: a workspace of one file, tools that do what their argument says,
//! and checks that fail as planned.

use super::plan::WORDS;
use crate::base::model::{Effect, Secret};
use crate::base::redact::Redactor;
use crate::engine::agent::Postconditions;
use crate::interfaces::provider::ToolSpec;
use crate::interfaces::tool::{Context, Tool, ToolError, Toolbox};
use crate::rendering::change_checks::CheckOutcome;
use crate::rendering::compare::CompareProgress;
use crate::state::access::{Identity, Role, testing::identity};
use crate::state::workspace::{Overlay, Repository, SecretGuard, Workspace, WorkspaceEdits};
use async_trait::async_trait;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A secret that the redactor knows.
const SECRET: &str = "hunter2-hunter2-hunter2";

/// The parts of all turns of a thread.
pub(super) struct OperationFixture {
    pub(super) workspace: Workspace,
    pub(super) identity: Identity,
    pub(super) toolbox: Toolbox,
    pub(super) redactor: Arc<Redactor>,
    /// The signal that stops the running turn.
    pub(super) stop: Arc<Mutex<CancellationToken>>,
    _directory: TempDir,
}

impl OperationFixture {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("repo.git");
        let head = commit(&git);
        let bases = directory.path().join("bases");
        let repository = Repository::open_local("infra", &git, Some("main"), &bases).unwrap();
        let base = repository.base(&head, &|_| ()).unwrap();
        let redactor = Arc::new(Redactor::new([Secret::new(SECRET.to_owned())]));
        let stop = Arc::new(Mutex::new(CancellationToken::new()));
        let tool = |name, effect| {
            let stop = Arc::clone(&stop);
            Arc::new(PlannedTool { name, effect, stop }) as Arc<dyn Tool>
        };
        Self {
            workspace: Workspace {
                repository,
                base: Some(head),
                tree: Arc::new(Overlay::new(base, WorkspaceEdits::new())),
                guard: SecretGuard {
                    redactor: Arc::clone(&redactor),
                    ..SecretGuard::default()
                },
            },
            identity: identity(Role::Editor, &["**"]),
            toolbox: Toolbox::new(vec![
                tool("file_read", Effect::Read),
                tool("file_write", Effect::WriteWorkspace),
            ])
            .unwrap(),
            redactor,
            stop,
            _directory: directory,
        }
    }
}

/// A tool whose argument says what it does.
struct PlannedTool {
    name: &'static str,
    effect: Effect,
    stop: Arc<Mutex<CancellationToken>>,
}

#[async_trait]
impl Tool for PlannedTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name,
            description: "Does what its argument says.",
            schema: json!({
                "type": "object",
                "properties": {"path": {"type": "string", "description": "The action."}},
                "additionalProperties": false,
            })
            .into(),
        }
    }

    fn effect(&self) -> Effect {
        self.effect
    }

    async fn call(&self, _: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        tokio::task::yield_now().await;
        match arguments["path"].as_str() {
            Some("words") => Ok(WORDS[0].to_owned()),
            Some("long") => Ok(WORDS[9].repeat(3)),
            Some("longer") => Ok(WORDS[9].repeat(12)),
            Some("blank") => Ok(WORDS[2].to_owned()),
            Some("hostile") => Ok(WORDS[5..=8].concat()),
            Some("secret") => Ok(WORDS[4].to_owned()),
            Some("fails") => Err(ToolError::Failed(String::new())),
            Some("refused") => Err(ToolError::refused("not in your grant")),
            Some("breaks") => Err(ToolError::Fatal(anyhow::anyhow!("the disk is gone"))),
            Some("hangs") => std::future::pending().await,
            Some("stops") => {
                self.stop.lock().unwrap().cancel();
                tokio::task::yield_now().await;
                Ok("done".to_owned())
            }
            _ => Err(ToolError::Malformed("`path` says what to do".to_owned())),
        }
    }
}

/// Checks of which the first ones fail.
pub(super) struct PlannedChecks(AtomicUsize);

impl PlannedChecks {
    pub(super) fn failing(findings: usize) -> Self {
        Self(AtomicUsize::new(findings))
    }
}

#[async_trait]
impl Postconditions for PlannedChecks {
    async fn check(
        &self,
        _: &mut (dyn FnMut(CompareProgress) + Send),
        _: &CancellationToken,
    ) -> anyhow::Result<CheckOutcome> {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        Ok(match left {
            0 => CheckOutcome::Passed,
            _ => CheckOutcome::Failed(vec![WORDS[5].to_owned()]),
        })
    }
}

/// Creates a repository with one commit, and returns the commit.
#[allow(clippy::disallowed_methods, reason = "a repository has to be somewhere")]
fn commit(git: &std::path::Path) -> String {
    let repository = gix::init_bare(git).unwrap();
    repository.write_object(gix::objs::Tree::empty()).unwrap();
    let empty = gix::ObjectId::empty_tree(gix::hash::Kind::Sha1);
    let mut editor = repository.edit_tree(empty).unwrap();
    let blob = repository.write_blob(b"alpha\n").unwrap().detach();
    editor.upsert("a.txt", EntryKind::Blob, blob).unwrap();
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: 1_000,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: [].into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "first\n".into(),
        extra_headers: Vec::new(),
    };
    let commit = repository.write_object(&commit).unwrap().to_string();
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("refs/heads/main"), format!("{commit}\n")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    commit
}
