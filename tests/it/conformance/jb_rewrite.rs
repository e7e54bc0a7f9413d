//! `jb rewrite`: the recorded files are written to a directory, our program runs there, and the files afterwards are
//! compared with those that jsonnet-bundler left. The recording is ours and is beside this file.

use super::jb::{ADVICE, in_their_words, tree};
use drydock::rendering::bundler::{self, Project};
use drydock::state::workspace::Directory;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

#[test]
fn jb_rewrite_matches_recorded_jsonnet_bundler_runs() {
    let list: toml::Table = include_str!("known.toml").parse().expect("the list is TOML");
    let listed = list["jb rewrite"].as_table().expect("a section");
    let pack: Value = serde_json::from_str(include_str!("jb_rewrite.json")).expect("a pack is JSON");
    let room = tempfile::tempdir().expect("a directory");
    let (mut equal, mut total, mut known, mut wrong) = (0, 0, 0, Vec::new());
    for case in pack["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        total += 1;
        let (ours, theirs) = (run_rewrite(&room.path().join(name), case), recorded(case));
        if let Some(reason) = listed.get(name).and_then(toml::Value::as_str)
            && reason.starts_with(ADVICE)
        {
            let (code, said, files) = &ours;
            let in_their_words = (*code, in_their_words(said), files.clone());
            assert_eq!(in_their_words, theirs, "{name} differs in more than the advice");
        }
        match (ours == theirs, listed.contains_key(name)) {
            (true, false) => equal += 1,
            (false, true) => known += 1,
            (true, true) => wrong.push(format!("{name}: is equal, and listed as known to differ")),
            (false, false) => wrong.push(format!("{name}: {ours:#?}\nnot {theirs:#?}")),
        }
    }
    println!("jb rewrite {equal}/{total} ({known} known)");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(known, listed.len(), "the list names cases that do not exist");
}

/// The result of a run: the exit code, the output, and the files.
type RewriteResult = (i64, String, BTreeMap<String, String>);

fn files(case: &Value, which: &str) -> BTreeMap<String, String> {
    let files = case[which].as_object().expect("files").iter();
    files
        .map(|(path, content)| (path.clone(), content.as_str().expect("text").to_owned()))
        .collect()
}

fn recorded(case: &Value) -> RewriteResult {
    let said = case["stderr"].as_str().expect("text").trim_end().to_owned();
    (case["rc"].as_i64().expect("a code"), said, files(case, "tree"))
}

fn run_rewrite(room: &Path, case: &Value) -> RewriteResult {
    std::fs::create_dir_all(room.join(".git")).expect("a repository");
    for (path, content) in files(case, "begin") {
        let file = room.join(path);
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
        match content.strip_prefix("->") {
            Some(target) => std::os::unix::fs::symlink(target, file).expect("a link"),
            None => std::fs::write(file, content).expect("a file"),
        }
    }
    let directory = Directory::open(room).expect("a work tree");
    let project = Project::new(&directory, ".").expect("a project");
    let (code, said) = match bundler::rewrite(project) {
        Ok(prepared) => {
            prepared.apply(&directory).expect("it is written");
            (0, String::new())
        }
        Err(err) => (1, format!("jb: error: {err}")),
    };
    (code, said, tree(room))
}
