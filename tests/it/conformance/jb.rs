//! jsonnet-bundler: the recorded repositories are created again, commit for commit, and served on this machine. We run
//! every recorded step in a directory of its own.
//!
//! Each step must end with the recorded exit code, leave the recorded files with the recorded content, and print the
//! recorded errors and warnings, word for word. There are two exceptions. First, if a download fails, jsonnet-bundler
//! prints only `exit status N`, the exit code of its git process. We start no git, and print the cause instead. Our
//! message must begin like the recorded one, up to that number, and continue with a reason. Second, advice names our
//! own program. Those cases are listed.

use crate::support::git_server::GitServer;
use drydock::rendering::bundler::{self, InstallRequest, NetworkFetcher, PreparedOperation, Project};
use drydock::state::download::DownloadObserver;
use drydock::state::workspace::Directory;
use gix::ObjectId;
use gix::objs::tree::EntryKind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The beginning of the reasons of cases that differ only in advice.
pub(super) const ADVICE: &str = "advice";

/// Replaces the name of our program with that of jsonnet-bundler.
pub(super) fn in_their_words(said: &str) -> String {
    said.replace(
        "Make sure to run `drydock jb install` first",
        "Make sure to run `jb install` first",
    )
    .replace(
        "jsonnetfile version unknown, update drydock",
        "jsonnetfile version unknown, update jb",
    )
}

#[test]
fn package_commands_match_recorded_jsonnet_bundler_runs() {
    let list: toml::Table = super::pack::read_own_file("known.toml")
        .parse()
        .expect("the list is TOML");
    let listed = list["jb"].as_table().expect("a section");
    let Some(pack) = super::pack::read_pack("jb-oracle.json.gz") else {
        return;
    };
    let pack: Value = serde_json::from_str(&pack).expect("a pack is JSON");
    let room = tempfile::tempdir().expect("a directory");
    let remotes = room.path().join("remotes");
    for (name, commits) in pack["remotes"].as_object().expect("remotes") {
        make_remote(
            &remotes.join(format!("{name}.git")),
            commits.as_array().expect("commits"),
        );
    }
    let Some(server) = GitServer::start(&remotes) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = drydock::base::http_client::api_client().expect("a client");
    let hosts = ["github.com", "example.com"];
    let mut network = NetworkFetcher::new(
        &hosts.map(str::to_owned),
        client,
        runtime.handle().clone(),
        room.path().join("scratch"),
    );
    for host in hosts {
        network = network
            .with_host_override(host, &server.address)
            .expect("this machine");
    }
    let (mut equal, mut total, mut known, mut differ) = (0, 0, 0, Vec::new());
    for case in pack["cases"].as_array().expect("cases") {
        let name = case["name"].as_str().expect("a name");
        total += 1;
        let played = play(&room.path().join("w").join(name), name, case, &network);
        match (played, listed.get(name).and_then(toml::Value::as_str)) {
            (Ok(OutputDifference::Theirs), None) => equal += 1,
            (Ok(OutputDifference::Advice), Some(reason)) if reason.starts_with(ADVICE) => known += 1,
            (Ok(words), _) => differ.push(format!("{name}: {words:?}, not as it is listed")),
            (Err(why), _) => differ.push(format!("{name}: {why}")),
        }
    }
    println!("jb {}/{total} ({known} known)", equal + known);
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(known, listed.len(), "the list names cases that do not exist");
}

/// Creates a recorded repository. Each commit must have the recorded hash.
fn make_remote(directory: &Path, commits: &[Value]) {
    std::fs::create_dir_all(directory.parent().expect("a parent")).expect("a directory");
    let repository: gix::Repository = gix::ThreadSafeRepository::init_opts(
        directory,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        gix::open::Options::isolated(),
    )
    .expect("a repository")
    .into();
    std::fs::write(directory.join("HEAD"), "ref: refs/heads/master\n").expect("a branch");
    repository.write_object(gix::objs::Tree::empty()).expect("a tree");
    let mut tree = ObjectId::empty_tree(gix::hash::Kind::Sha1);
    let mut parents = Vec::new();
    for commit in commits {
        let mut editor = repository.edit_tree(tree).expect("an editor");
        for (path, content) in commit["files"].as_object().expect("files") {
            let content = content.as_str().expect("text");
            let (content, kind) = match content.strip_prefix("->") {
                Some(target) => (target, EntryKind::Link),
                None => (content, EntryKind::Blob),
            };
            let blob = repository.write_blob(content).expect("a blob").detach();
            editor.upsert(path.as_str(), kind, blob).expect("an entry");
        }
        tree = editor.write().expect("a tree").detach();
        let author = gix::actor::Signature {
            name: "n".into(),
            email: "a@b".into(),
            time: gix::date::Time {
                seconds: 1_767_225_600,
                offset: 0,
            },
        };
        let made = gix::objs::Commit {
            tree,
            parents: parents.iter().copied().collect(),
            author: author.clone(),
            committer: author,
            encoding: None,
            message: "c\n".into(),
            extra_headers: Vec::new(),
        };
        let id = repository.write_object(&made).expect("a commit").detach();
        assert_eq!(commit["sha"], id.to_string(), "{}", directory.display());
        parents = vec![id];
        point(directory, "refs/heads/master", id);
        if let Some(tag) = commit["tag"].as_str() {
            point(directory, &format!("refs/tags/{tag}"), id);
        }
    }
}

fn point(repository: &Path, reference: &str, id: ObjectId) {
    let file = repository.join(reference);
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
    std::fs::write(file, format!("{id}\n")).expect("a reference");
}

/// The difference in the output of a case that ends as recorded.
#[derive(Debug, PartialEq, Eq)]
enum OutputDifference {
    Theirs,
    /// The recorded output, except for advice.
    Advice,
}

/// Runs the steps of a case and compares after each.
fn play(room: &Path, name: &str, case: &Value, network: &NetworkFetcher) -> Result<OutputDifference, String> {
    std::fs::create_dir_all(room.join(".git")).expect("a repository");
    let (steps, mut words) = (case["steps"].as_array().expect("steps"), OutputDifference::Theirs);
    begin(room, name, steps);
    for (number, step) in steps.iter().enumerate() {
        if let Some(command) = step["shell"].as_str() {
            let done = Command::new("sh")
                .args(["-c", command])
                .current_dir(room)
                .status();
            assert!(done.expect("a shell").success(), "{command}");
            continue;
        }
        let arguments: Vec<&str> = step["args"]
            .as_array()
            .expect("arguments")
            .iter()
            .map(|argument| argument.as_str().expect("text"))
            .collect();
        let (code, said) = run(room, &arguments, network);
        let (expected_code, expected) = (step["rc"].as_i64(), recorded_output(step, name));
        let theirs: Vec<String> = said.iter().map(|line| in_their_words(line)).collect();
        if theirs != said {
            words = OutputDifference::Advice;
        }
        if Some(code) != expected_code || !says_the_same(&theirs, &expected) {
            return Err(format!(
                "step {number}: {code} {said:?}, not {expected_code:?} {expected:?}"
            ));
        }
        let (now, expected) = (tree(room), files(step));
        if now != expected {
            return Err(format!("step {number}: {now:#?}\nnot {expected:#?}"));
        }
    }
    Ok(words)
}

/// Writes the files a case begins with. They were not recorded. They are the files that its first step did not change.
fn begin(room: &Path, name: &str, steps: &[Value]) {
    let begins = steps[0]["args"][0].as_str().expect("a command");
    for (path, content) in files(&steps[0]) {
        let made = path.starts_with("vendor/")
            || path == "jsonnetfile.lock.json"
            || (begins == "init" && path == "jsonnetfile.json");
        // The only existing file that was changed.
        let content = if name == "empty_json" {
            String::new()
        } else {
            content
        };
        if !made {
            let file = room.join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
            std::fs::write(file, content).expect("a file");
        }
    }
}

/// Runs one command. Returns its exit code, and its errors and warnings, with paths inside the project.
fn run(room: &Path, arguments: &[&str], network: &NetworkFetcher) -> (i64, Vec<String>) {
    let directory = Directory::open(room).expect("a work tree");
    let project = Project::new(&directory, ".").expect("a project");
    let (verb, rest) = arguments.split_first().expect("a command");
    let mut order = InstallRequest::default();
    let mut rest = rest.iter().map(|argument| (*argument).to_owned());
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--single" => order.single = true,
            "--legacy-name" => order.legacy_name = rest.next(),
            _ => order.packages.push(argument),
        }
    }
    let watch = DownloadObserver::silent();
    let prepared = match *verb {
        "init" => bundler::init(project),
        "install" => bundler::install(project, &order, network, &watch),
        "update" => bundler::update(project, &order.packages, network, &watch),
        "rewrite" => bundler::rewrite(project),
        other => panic!("no command {other}"),
    };
    match prepared {
        Ok(prepared) => {
            prepared.apply(&directory).expect("it is written");
            (0, notices(&prepared))
        }
        // The first of several lines describes the error.
        Err(err) => {
            let said = format!("jb: error: {err}");
            (1, said.lines().take(1).map(str::to_owned).collect())
        }
    }
}

/// Returns true if every line is the recorded one, or has a reason in the place of the exit status of git.
fn says_the_same(said: &[String], expected: &[String]) -> bool {
    let same = |(said, expected): (&String, &String)| {
        said == expected
            || up_to_exit_status(expected)
                .is_some_and(|begins| said.strip_prefix(begins).is_some_and(|reason| !reason.is_empty()))
    };
    said.len() == expected.len() && said.iter().zip(expected).all(same)
}

fn up_to_exit_status(line: &str) -> Option<&str> {
    let (begins, number) = line.rsplit_once("exit status ")?;
    let is_download = begins == "jb: error: failed to install packages: downloading: ";
    (is_download && number.parse::<u8>().is_ok()).then_some(begins)
}

#[test]
fn only_the_git_exit_status_may_be_worded_differently() {
    let lines = |line: &str| vec![format!("jb: error: {line}")];
    let recorded = lines("failed to install packages: downloading: exit status 128");
    let reason = lines("failed to install packages: downloading: no such host");
    assert!(says_the_same(&reason, &recorded));
    assert!(!says_the_same(
        &lines("failed to install packages: downloading: "),
        &recorded
    ));
    assert!(!says_the_same(&lines("no such host"), &recorded));
    assert!(!says_the_same(&[], &recorded));
    let other = lines("failed to install packages: checksum mismatch");
    assert!(says_the_same(&other, &other));
    assert!(!says_the_same(&reason, &other));
}

fn notices(prepared: &PreparedOperation) -> Vec<String> {
    prepared.notices.iter().map(ToString::to_string).collect()
}

/// Returns the recorded output, without progress messages of git and of the download.
fn recorded_output(step: &Value, name: &str) -> Vec<String> {
    let said = step["stderr"].as_str().expect("text");
    let ours = |line: &&str| {
        ["jb: error:", "WARN:", "LOCAL "]
            .iter()
            .any(|kind| line.starts_with(kind))
    };
    let inside = |line: &str| line.replace(&format!("$B/w/{name}/"), "");
    said.lines().filter(ours).map(inside).collect()
}

/// Returns the recorded files. Empty directories are ignored, because a repository contains none.
fn files(step: &Value) -> BTreeMap<String, String> {
    let files = step["tree"].as_object().expect("files").iter();
    files
        .map(|(path, content)| (path.clone(), content.as_str().expect("text").to_owned()))
        .filter(|(_, content)| content != "(empty dir)")
        .collect()
}

/// Returns the existing files.
pub(super) fn tree(room: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut open = vec![room.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(room)
                .expect("inside")
                .to_str()
                .expect("text")
                .to_owned();
            let kind = path.symlink_metadata().expect("the path exists").file_type();
            if name == ".git" {
                continue;
            } else if kind.is_symlink() {
                let target = std::fs::read_link(&path).expect("a link");
                files.insert(name, format!("->{}", target.display()));
            } else if kind.is_dir() {
                open.push(path);
            } else {
                files.insert(name, std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    files
}
