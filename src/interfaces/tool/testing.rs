//! Fixtures shared by the tests of the tools: a tree in memory, a write policy for it, and calls as a model writes
//! them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::adapter::{ToolAdapter, ToolBody, ToolFunction, escape_error, show_invisible};
use super::arguments::bind;
use super::write_policy::WritePolicy;
use super::{Tool, ToolError, ToolServices, all, schema};
use crate::base::config::SandboxSettings;
use crate::base::model::{Effect, FileChange, FileMode, FileVersion, RepoPath};
use crate::base::redact::Redactor;
use crate::rendering::bundler::OfflineFetcher;
use crate::rendering::compare::Comparer;
use crate::rendering::helm::Helm;
use crate::rendering::sandbox::ProgramPath;
use crate::rendering::tanka::testing::JsonEvaluator;
use crate::state::access::{Role, testing::identity};
use crate::state::download::DownloadObserver;
use crate::state::workspace::contract::{CONTRACT_FILES, assert_reads, assert_writes, search_files};
use crate::state::workspace::{DeniedFiles, GuardedTree, Match, SecretGuard, Tree, TreeError};
use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

type Files = BTreeMap<RepoPath, FileVersion>;

/// Returns every tool, also those that only some turns offer, with no network, with programs that are already JSON, and with a helm that does not start.
pub(crate) fn all_tools() -> Vec<Arc<dyn Tool>> {
    let redactor = Arc::new(Redactor::new([]));
    let mut tools = all(&ToolServices {
        packages: Arc::new(OfflineFetcher),
        evaluator: Arc::new(JsonEvaluator::default()),
        comparer: Arc::new(Comparer::new(
            Arc::new(JsonEvaluator::default()),
            redactor,
            b"key".to_vec(),
        )),
        helm: Some(no_helm()),
    });
    tools.push(super::conclude());
    tools.push(super::get_step_result(BTreeMap::new(), 4_096, 61_440));
    tools.push(super::keep_note());
    tools.push(super::send_user_message());
    tools
}

/// Returns a helm that does not start.
pub(crate) fn no_helm() -> Arc<Helm> {
    let mut settings = SandboxSettings::default().programs;
    settings.helm = Some("/nonexistent/helm".into());
    Arc::new(Helm::configured(ProgramPath::at("/nonexistent/drydock"), &settings).unwrap())
}

/// A tree that stores its files in memory.
#[derive(Debug)]
pub(super) struct MemoryTree {
    base: Files,
    files: Mutex<Files>,
}

impl Tree for MemoryTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let files = self.files.lock().unwrap();
        let below = format!("{path}/");
        match files.get(path) {
            Some(file) => Ok(file.clone()),
            None if files.keys().any(|file| file.as_str().starts_with(&below)) => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            None => Err(not_found(path)),
        }
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::new(self.files.lock().unwrap().keys().cloned().collect()))
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        let mut files = self.files.lock().unwrap();
        let mode = files.get(path).map_or(FileMode::Regular, |file| file.mode);
        files.insert(path.clone(), FileVersion { content, mode });
        Ok(())
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(|_| ()).ok_or_else(|| not_found(path))
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let prefix = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let files = self.files.lock().unwrap();
        let below = files.keys().filter(|path| path.as_str().starts_with(&prefix));
        Ok(below.cloned().collect())
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        Ok(self.files.lock().unwrap().get(path).cloned())
    }

    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        let mut files = self.files.lock().unwrap();
        match after {
            Some(after) => drop(files.insert(path.clone(), after)),
            None => drop(files.remove(path)),
        }
        Ok(())
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        let files = self.files.lock().unwrap();
        let files = files.iter().filter(|(path, _)| accepts(path.as_str()));
        let files = files.map(|(path, file)| (path, file.content.as_ref()));
        Ok(search_files(files, needle, offset, limit))
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        let files = self.files.lock().unwrap();
        let paths: BTreeSet<&RepoPath> = self.base.keys().chain(files.keys()).collect();
        let change = |path: &RepoPath| FileChange {
            path: path.clone(),
            before: self.base.get(path).cloned(),
            after: files.get(path).cloned(),
        };
        let changes = paths.into_iter().map(change);
        Ok(changes.filter(|change| change.before != change.after).collect())
    }
}

fn not_found(path: &RepoPath) -> TreeError {
    TreeError::NotFound {
        path: path.clone(),
        similar: Vec::new(),
    }
}

/// A tool that writes the file `late` through the write policy, as other tools do, when the test allows it.
pub(crate) struct LateWrite;

/// The time at which the write of a [`LateWrite`] is admitted.
#[derive(Clone, Copy)]
pub(crate) enum LateAdmission {
    BeforeWait,
    AfterWait,
}

/// The part of a [`LateWrite`] that the test controls.
pub(crate) struct LateWriteControl {
    policy: WritePolicy,
    admission: LateAdmission,
    steps: Arc<Steps>,
}

/// The signals between a [`LateWrite`] and its test.
pub(crate) struct Steps {
    pub(crate) waits: tokio::sync::Semaphore,
    pub(crate) go_on: Mutex<std::sync::mpsc::Receiver<()>>,
    pub(crate) ended: tokio::sync::Semaphore,
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArguments {}

impl super::arguments::ToolArguments for NoArguments {
    const SUBJECT: Option<&'static str> = None;
}

impl ToolBody for LateWrite {
    type Arguments = NoArguments;
    type CallContext = LateWriteControl;

    const NAME: &'static str = "late_write";
    const DESCRIPTION: &'static str = "Writes a file late.";
    const EFFECT: Effect = Effect::WriteWorkspace;
    const EXAMPLES: &'static [&'static str] = &["{}"];
    const RUN: ToolFunction<Self> = ToolFunction::Blocking(|held, _| {
        let LateWriteControl { policy, steps, .. } = held;
        let late = path("late");
        let admitted = match held.admission {
            LateAdmission::BeforeWait => policy.admit_write(&late).map(Some),
            LateAdmission::AfterWait => Ok(None),
        };
        steps.waits.add_permits(1);
        let _ = steps.go_on.lock().unwrap().recv();
        let written = admitted.and_then(|admitted| match admitted {
            Some(_) => Ok(policy.tree.write(&late, Bytes::from_static(b"x"))?),
            None => policy.write(&late, "x".to_owned(), "x"),
        });
        steps.ended.add_permits(1);
        written.map(|()| "written".to_owned())
    });
}

/// Returns a [`LateWrite`], its signals, and the sender that lets it continue.
pub(crate) fn late_write(
    admission: LateAdmission,
) -> (Arc<dyn Tool>, Arc<Steps>, std::sync::mpsc::Sender<()>) {
    let (go_on, waits) = std::sync::mpsc::channel();
    let steps = Arc::new(Steps {
        waits: tokio::sync::Semaphore::new(0),
        go_on: Mutex::new(waits),
        ended: tokio::sync::Semaphore::new(0),
    });
    let of_tool = Arc::clone(&steps);
    let tool = ToolAdapter::<LateWrite>::with_context(move |cx| LateWriteControl {
        policy: WritePolicy::from(cx),
        admission,
        steps: Arc::clone(&of_tool),
    });
    (Arc::new(tool), steps, go_on)
}

/// Parses a valid path.
pub(super) fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

/// Returns a tree with a guard that denies nothing and knows no secrets.
pub(super) fn guarded(tree: Arc<dyn Tree>) -> Arc<GuardedTree> {
    Arc::new(GuardedTree::new(tree, guard(DeniedFiles::default())))
}

pub(super) fn guard(denied: DeniedFiles) -> SecretGuard {
    SecretGuard {
        denied: Arc::new(denied),
        redactor: Arc::new(Redactor::new([])),
    }
}

/// Returns the write policy of an unrestricted editor for these files.
pub(super) fn write_policy<C: AsRef<[u8]>>(files: &[(&str, C)]) -> WritePolicy {
    write_policy_for(files, Role::Editor, &["**"])
}

/// Returns a write policy for these files, with a role in some environments.
pub(super) fn write_policy_for<C: AsRef<[u8]>>(
    files: &[(&str, C)],
    role: Role,
    environments: &[&str],
) -> WritePolicy {
    let version = |content: &[u8]| FileVersion {
        content: Bytes::copy_from_slice(content),
        mode: FileMode::Regular,
    };
    let base: Files = files
        .iter()
        .map(|(name, content)| (path(name), version(content.as_ref())))
        .collect();
    WritePolicy {
        tree: Arc::new(MemoryTree {
            files: Mutex::new(base.clone()),
            base,
        }),
        guard: guard(DeniedFiles::default()),
        repository: "infra".to_owned(),
        identity: identity(role, environments),
        files_changed_max: 50,
        lines_changed_max: 5_000,
        environments_changed_max: 0,
        cancel: CancellationToken::new(),
        writers: TaskTracker::new(),
        watch: DownloadObserver::silent(),
    }
}

/// Calls a tool as a model does.
pub(super) async fn call_async<T: ToolBody>(
    context: &T::CallContext,
    arguments: Value,
) -> Result<String, ToolError> {
    let schema = schema::render::<T::Arguments>();
    let arguments = bind::<T::Arguments>(T::NAME, &schema, arguments).map_err(escape_error)?;
    show_invisible(match T::RUN {
        ToolFunction::Blocking(run) => run(context, arguments),
        ToolFunction::Async(run) => run(context, arguments).await,
    })
}

/// Calls a tool that does not wait.
pub(super) fn call<T: ToolBody>(context: &T::CallContext, arguments: Value) -> Result<String, ToolError> {
    let answer = call_async::<T>(context, arguments).now_or_never();
    answer.expect("an answer at once")
}

/// Returns the answer of a successful call.
pub(super) fn answer<W: ToolBody<CallContext = WritePolicy>>(
    policy: &WritePolicy,
    arguments: Value,
) -> String {
    call::<W>(policy, arguments).unwrap()
}

/// Returns the error message of a failed call, which the model reads.
pub(super) fn failure<T: std::fmt::Debug>(result: Result<T, ToolError>) -> String {
    match result.unwrap_err() {
        ToolError::Failed(why) | ToolError::Refused { answer: why, .. } => why,
        other => panic!("expected a failed call, got {other:?}"),
    }
}

/// Asserts that the tool refuses every path that leads outside the repository, and changes nothing.
pub(super) fn refuses_paths_outside<W: ToolBody<CallContext = WritePolicy>>(
    arguments: impl Fn(&str) -> Value,
) {
    let files = [("a.txt", "x\n"), ("environments/dev/main.jsonnet", "{}\n")];
    let policy = write_policy(&files);
    for text in paths_outside() {
        let refused = failure(call::<W>(&policy, arguments(&text)));
        let says = refused.contains("outside the repository") || refused.contains("git metadata");
        assert!(says, "{}: {text:.60}: {refused}", W::NAME);
    }
    assert_eq!(policy.tree.changes().unwrap(), []);
}

/// Asserts the same for a tool with a glob. A glob that ends like a directory is not refused: it matches nothing, and
/// the answer says how to list a directory.
pub(super) fn refuses_globs_outside<W: ToolBody<CallContext = WritePolicy>>(
    arguments: impl Fn(&str) -> Value,
) {
    let files = [("a.txt", "root\n"), ("b/c.txt", "root\n")];
    let policy = write_policy(&files);
    for glob in paths_outside().into_iter().filter(|glob| glob != "a/") {
        let refused = failure(call::<W>(&policy, arguments(&glob)));
        let says = ["outside the repository", "git metadata", "the glob is empty"];
        assert!(
            says.iter().any(|why| refused.contains(why)),
            "{}: {glob:.60}: {refused}",
            W::NAME
        );
    }
}

/// Returns at least 120 paths that do not name a file of the repository.
pub(super) fn paths_outside() -> Vec<String> {
    let mut corpus: Vec<String> = [
        "",
        ".",
        "..",
        "/",
        "//",
        "/etc/passwd",
        "//etc/passwd",
        "///etc/passwd",
        "/proc/self/environ",
        "/repo-evil/x",
        "../repo-evil/x",
        "~",
        "~/x",
        "~root/.ssh/id_rsa",
        "a/",
        "a//b",
        "a/.",
        "a/./b",
        "a/..",
        "./",
        "./.",
        "././x",
        "./../x",
        "a/../../x",
        "a/b/../../../x",
        "a\0b",
        "\0",
        "a\\b",
        "..\\x",
        "\\\\host\\x",
        "C:\\x",
        "C:\\..\\x",
        "a/\0/b",
        "a.txt\0.png",
        "...//..",
        ".../../x",
        "a/...//",
        "%00",
        "a%00b",
        "file:///etc/passwd",
        "\\",
        "/\\..",
        "..;/x/..",
        "x/;/..",
        ".git",
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/config",
        ".Git/x",
        "sub/.git/config",
        "git~1/config",
        ".git /config",
        ".git./config",
        ".git::$INDEX_ALLOCATION/x",
        ".g\u{200c}it/config",
        "a/.git",
    ]
    .map(str::to_owned)
    .into();
    for escape in [
        "..",
        "%2e%2e",
        "%2E%2E",
        ".%2e",
        "%2e.",
        "..%2f",
        "..%5c",
        "%2e%2e%2f",
        "..%00",
    ] {
        for shape in [
            "{}/x",
            "a/{}/x",
            "{}/{}/x",
            "a/b/{}/{}/{}/x",
            "./{}/x",
            "{}",
            "a/{}",
        ] {
            corpus.push(shape.replace("{}", escape));
        }
    }
    corpus.push("../".repeat(5_000) + "x");
    corpus.push("a/".repeat(5_000) + "x");
    corpus.push("x".repeat(4_097));
    corpus.push("..\\".repeat(100));
    assert!(corpus.len() >= 120, "{}", corpus.len());
    corpus
}

#[test]
fn the_tree_in_memory_keeps_the_contract_of_trees() {
    let tree = write_policy(&CONTRACT_FILES).tree;
    assert_reads(tree.as_ref());
    assert_writes(tree.as_ref());
}
