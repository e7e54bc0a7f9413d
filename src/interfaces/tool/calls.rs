//! Tests of complete calls, as the loop makes them, on a real repository and its overlay.

#![allow(clippy::unwrap_used)]

use super::testing::{all_tools, guard};
use super::{Context, MemoryOutputs, Outputs, Toolbox};
use crate::base::model::ToolCall;
use crate::state::access::{Identity, Role, testing::identity};
use crate::state::download::DownloadObserver;
use crate::state::workspace::{DeniedFiles, Overlay, Repository, Workspace};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

struct CallFixture {
    workspace: Workspace,
    identity: Identity,
    cancel: CancellationToken,
    _directory: tempfile::TempDir,
}

impl CallFixture {
    fn new(role: Role, environments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("repo.git");
        let objects: gix::Repository = gix::ThreadSafeRepository::init_opts(
            &git,
            gix::create::Kind::Bare,
            gix::create::Options::default(),
            gix::open::Options::isolated(),
        )
        .unwrap()
        .into();
        let first = commit(
            &objects,
            &[("environments/dev/main.jsonnet", "{ replicas: 1 }\n")],
            &[],
        );
        let files = [
            (".gitignore", "x\n"),
            ("environments/dev/main.jsonnet", "{\n  replicas: 2,\n}\n"),
            ("environments/prod/spec.json", "{}\n"),
            ("lib/k.libsonnet", "{}\n"),
        ];
        let second = commit(&objects, &files, &[first]);
        #[allow(clippy::disallowed_methods, reason = "the fixture is a repository on disk")]
        {
            std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
            std::fs::write(git.join("refs/heads/main"), format!("{second}\n")).unwrap();
        }
        let repository =
            Repository::open_local("infra", &git, Some("main"), &directory.path().join("bases")).unwrap();
        let base = repository.base(&second.to_string(), &|_| ()).unwrap();
        Self {
            workspace: Workspace {
                repository,
                base: Some(second.to_string()),
                tree: Arc::new(Overlay::new(base, Default::default())),
                guard: guard(DeniedFiles::default()),
            },
            identity: identity(role, environments),
            cancel: CancellationToken::new(),
            _directory: directory,
        }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let toolbox = Toolbox::new(all_tools()).unwrap();
        let call = ToolCall {
            id: "call_1".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string().into(),
        };
        let prepared = toolbox
            .for_identity(&self.identity, "infra")
            .prepare(&call, 65_536)
            .map_err(|err| err.to_string())?;
        let cx = Context {
            workspace: &self.workspace,
            identity: &self.identity,
            files_changed_max: 50,
            lines_changed_max: 5_000,
            environments_changed_max: 0,
            cancel: &self.cancel,
            writers: &TaskTracker::new(),
            watch: &DownloadObserver::silent(),
            outputs: &no_outputs(),
            output_bytes_max: 65_536,
        };
        let answer = prepared.tool.call(cx, prepared.arguments).await;
        answer.map_err(|err| err.to_string())
    }
}

fn no_outputs() -> Arc<dyn Outputs> {
    Arc::new(MemoryOutputs::default())
}

fn commit(objects: &gix::Repository, files: &[(&str, &str)], parents: &[ObjectId]) -> ObjectId {
    objects.write_object(gix::objs::Tree::empty()).unwrap();
    let mut editor = objects
        .edit_tree(ObjectId::empty_tree(gix::hash::Kind::Sha1))
        .unwrap();
    for (path, content) in files {
        let blob = objects.write_blob(content).unwrap().detach();
        editor.upsert(*path, EntryKind::Blob, blob).unwrap();
    }
    let author = gix::actor::Signature {
        name: "Ada".into(),
        email: "ada@example.com".into(),
        time: gix::date::Time {
            seconds: 86_400 + i64::try_from(parents.len()).unwrap(),
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: parents.iter().copied().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: format!("change {}\n\nWhy.\n", parents.len()).into(),
        extra_headers: Vec::new(),
    };
    objects.write_object(&commit).unwrap().detach()
}

/// TK-27, TK-28, TK-29, TK-30, TK-31
#[tokio::test]
async fn an_editor_reads_changes_and_compares() {
    let fixture = CallFixture::new(Role::Editor, &["**"]);
    let main = "environments/dev/main.jsonnet";
    let content = |answer: Result<String, String>| answer.unwrap();
    assert_eq!(
        content(fixture.call("file_list", json!({ "glob_pattern": "**" })).await),
        "environments/dev/main.jsonnet\nenvironments/prod/spec.json\nlib/k.libsonnet\n"
    );
    assert_eq!(
        content(
            fixture
                .call("file_search", json!({ "glob": "**", "query": "replicas" }))
                .await
        ),
        "environments/dev/main.jsonnet:2:  replicas: 2,\n"
    );
    let edit = json!({ "path": main, "old": "replicas: 2", "new": "replicas: 3" });
    assert_eq!(
        content(fixture.call("file_edit", edit).await),
        "edited environments/dev/main.jsonnet (line 2, +1 −1 against the base)"
    );
    assert_eq!(
        content(fixture.call("file_read", json!({ "path": main })).await),
        "{\n  replicas: 3,\n}\n"
    );
    assert_eq!(
        content(
            fixture
                .call("file_write", json!({ "path": "new/a.txt", "content": "a\nb\n" }))
                .await
        ),
        "wrote new/a.txt (2 lines, +2 −0 against the base)"
    );
    assert_eq!(
        content(
            fixture
                .call("file_delete", json!({ "path": "lib/k.libsonnet" }))
                .await
        ),
        "deleted lib/k.libsonnet (+0 −1 against the base)"
    );
    assert_eq!(
        content(fixture.call("git_status", json!({})).await),
        "M environments/dev/main.jsonnet\nD lib/k.libsonnet\nA new/a.txt\n"
    );
    let diff = content(fixture.call("git_diff", json!({ "path": "environments" })).await);
    assert!(
        diff.ends_with("@@ -1,3 +1,3 @@\n {\n-  replicas: 2,\n+  replicas: 3,\n }\n"),
        "{diff}"
    );
}

/// TK-35, TK-36
#[tokio::test]
async fn history_is_read_from_the_base() {
    let fixture = CallFixture::new(Role::Viewer, &["**"]);
    let log = fixture.call("git_log", json!({})).await.unwrap();
    let base = fixture.workspace.base.clone().unwrap();
    let hash: String = base.chars().take(12).collect();
    let newest = format!("{hash} 1970-01-02 Ada <ada@example.com>: change 1");
    assert_eq!(log.lines().next(), Some(newest.as_str()));
    assert_eq!(log.lines().count(), 2);
    let shown = fixture.call("git_show", json!({})).await.unwrap();
    let header = format!(
        "commit {base}\nAuthor: Ada <ada@example.com>\nDate: 1970-01-02T00:00:01Z\n\n    change 1\n\n    Why.\n\ndiff --git "
    );
    assert!(shown.starts_with(&header), "{shown}");
    assert!(
        shown.contains("-{ replicas: 1 }\n+{\n+  replicas: 2,\n+}\n"),
        "{shown}"
    );
    let older = fixture
        .call("git_show", json!({ "ref": "HEAD~1" }))
        .await
        .unwrap();
    assert!(older.contains("    change 0\n"), "{older}");
    assert_eq!(
        fixture
            .call("git_show", json!({ "ref": "v9" }))
            .await
            .unwrap_err(),
        "unknown revision `v9`; use `HEAD`, `HEAD~1`, a branch, a tag or a hash that `git_log` shows"
    );
}

#[tokio::test]
async fn a_grant_is_checked_at_the_write_and_a_viewer_is_offered_none() {
    let fixture = CallFixture::new(Role::Editor, &["dev"]);
    let write = |path: &str| json!({ "path": path, "content": "{}\n" });
    let dev = fixture.call("file_write", write("environments/dev/x.json")).await;
    assert_eq!(
        dev.unwrap(),
        "wrote environments/dev/x.json (1 line, +1 −0 against the base)"
    );
    let prod = fixture
        .call("file_write", write("environments/prod/spec.json"))
        .await;
    assert_eq!(
        prod.unwrap_err(),
        "`environments/prod` is not in your grant (dev)"
    );
    let viewer = CallFixture::new(Role::Viewer, &["**"]);
    let refused = viewer.call("file_write", write("a")).await.unwrap_err();
    assert!(
        refused.starts_with("`file_write` is not available to this person"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_stopped_turn_calls_nothing() {
    let fixture = CallFixture::new(Role::Editor, &["**"]);
    fixture.cancel.cancel();
    let written = fixture
        .call("file_write", json!({ "path": "a", "content": "x" }))
        .await;
    assert_eq!(written.unwrap_err(), "the turn was stopped");
    assert_eq!(fixture.workspace.tree.changes().unwrap(), []);
}
