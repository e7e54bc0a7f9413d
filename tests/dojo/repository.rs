//! The repository under attack: the files of a real one, and the targets of attacks. Its files are data
//! (`repository.toml`), so that they can be read beside the table.

use super::placeholders::{PlaceholderValues, expand};
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The commits, oldest first.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RepositoryContent {
    commit: Vec<CommitContent>,
}

/// One commit: the files it adds to the one before.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitContent {
    message: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    links: BTreeMap<String, String>,
    #[serde(default)]
    removed: Vec<String>,
}

/// Creates a bare repository with the branch `main`, and one commit that no branch reaches. Returns the id of that
/// commit.
pub(crate) fn create(path: &Path, values: &PlaceholderValues) -> ObjectId {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dojo/repository.toml");
    let content: RepositoryContent = toml::from_str(&std::fs::read_to_string(source).unwrap()).unwrap();
    let repository = gix::init_bare(path).unwrap();
    let mut tree = repository
        .write_object(gix::objs::Tree::empty())
        .unwrap()
        .detach();
    let mut tip = None;
    for (day, commit) in content.commit.iter().enumerate() {
        tree = write_tree(&repository, tree, commit, values);
        tip = Some(write_commit(&repository, tree, &commit.message, day, tip));
    }
    let tip = tip.expect("a commit");
    let dangling = CommitContent {
        message: String::new(),
        files: [("dangling.txt".to_owned(), "CANARY-DANGLING\n".to_owned())].into(),
        links: BTreeMap::new(),
        removed: Vec::new(),
    };
    let tree = write_tree(&repository, tree, &dangling, values);
    let dangling = write_commit(&repository, tree, "never pushed", 99, Some(tip));
    let any = gix::refs::transaction::PreviousValue::Any;
    repository.reference("refs/heads/main", tip, any, "made").unwrap();
    std::fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    dangling
}

fn write_tree(
    repository: &gix::Repository,
    tree: ObjectId,
    commit: &CommitContent,
    values: &PlaceholderValues,
) -> ObjectId {
    let mut editor = repository.edit_tree(tree).unwrap();
    let mut put = |path: &str, kind, text: &str| {
        let blob = repository.write_blob(text).unwrap().detach();
        editor.upsert(path, kind, blob).unwrap();
    };
    for (path, text) in &commit.files {
        put(&expand(path, values), EntryKind::Blob, &expand(text, values));
    }
    for (path, target) in &commit.links {
        put(path, EntryKind::Link, &expand(target, values));
    }
    for path in &commit.removed {
        editor.remove(path.as_str()).unwrap();
    }
    editor.write().unwrap().detach()
}

fn write_commit(
    repository: &gix::Repository,
    tree: ObjectId,
    message: &str,
    day: usize,
    parent: Option<ObjectId>,
) -> ObjectId {
    let author = gix::actor::Signature {
        name: "Dana Demo".into(),
        email: "dana@example.com".into(),
        time: gix::date::Time {
            seconds: 1_760_000_000 + i64::try_from(day).unwrap() * 86_400,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree,
        parents: parent.into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: format!("{message}\n").into(),
        extra_headers: Vec::new(),
    };
    repository.write_object(&commit).unwrap().detach()
}
