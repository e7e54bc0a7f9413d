//! Bare repositories, written object by object.

use gix::ObjectId;
use gix::objs::tree::EntryKind;
use std::path::Path;

/// The average size of a file in bytes: 10,000 files are 25 MB.
const FILE_BYTES: usize = 2_500;

/// Returns the path of file `number`.
pub(crate) fn name(number: usize) -> String {
    format!(
        "environments/team-{}/app-{}/file-{number}.jsonnet",
        number % 40,
        number % 500
    )
}

/// Returns the text of file `number`.
pub(crate) fn content(number: usize) -> String {
    let mut text = format!("// needle-{number} here\n");
    let mut line = 0;
    while text.len() < FILE_BYTES {
        line += 1;
        text.push_str(&format!(
            "local value_{line} = {{ key: 'line {line} of {number}' }};\n"
        ));
    }
    text
}

/// Creates a repository with one commit of `count` files. Returns the id of the commit.
pub(crate) fn of_files(git: &Path, count: usize) -> String {
    of(git, (0..count).map(|number| (name(number), content(number))))
}

/// Creates a repository of `count` Tanka environments that share one library.
pub(crate) fn of_environments(git: &Path, count: usize) -> String {
    let library = "lib/app.libsonnet".to_owned();
    let shared = (
        library,
        "{ new(name, replicas):: { name: name, replicas: replicas } }\n".repeat(40),
    );
    let environments = (0..count).flat_map(|number| {
        let directory = format!("environments/team-{}/env-{number}", number % 20);
        let main = format!(
            "local app = import 'app.libsonnet';\n{{\n{}}}\n",
            (0..20)
                .map(|app| format!("  app{app}: app.new('app-{app}', {number}),\n"))
                .collect::<String>()
        );
        let spec = format!(
            "{{\"apiVersion\": \"tanka.dev/v1alpha1\", \"kind\": \"Environment\", \"metadata\": {{\"name\": \"env-{number}\"}}}}\n"
        );
        [
            (format!("{directory}/main.jsonnet"), main),
            (format!("{directory}/spec.json"), spec),
        ]
    });
    of(git, std::iter::once(shared).chain(environments))
}

/// Creates a repository with one commit of these files.
pub(crate) fn of(git: &Path, files: impl Iterator<Item = (String, String)>) -> String {
    let objects: gix::Repository = gix::ThreadSafeRepository::init_opts(
        git,
        gix::create::Kind::Bare,
        gix::create::Options::default(),
        gix::open::Options::isolated(),
    )
    .unwrap()
    .into();
    objects.write_object(gix::objs::Tree::empty()).unwrap();
    let mut editor = objects
        .edit_tree(ObjectId::empty_tree(gix::hash::Kind::Sha1))
        .unwrap();
    for (name, content) in files {
        let blob = objects.write_blob(content).unwrap().detach();
        editor.upsert(name.as_str(), EntryKind::Blob, blob).unwrap();
    }
    let author = gix::actor::Signature {
        name: "bench".into(),
        email: "bench@example.com".into(),
        time: gix::date::Time {
            seconds: 0,
            offset: 0,
        },
    };
    let commit = gix::objs::Commit {
        tree: editor.write().unwrap().detach(),
        parents: [].into_iter().collect(),
        author: author.clone(),
        committer: author,
        encoding: None,
        message: "bench".into(),
        extra_headers: Vec::new(),
    };
    let commit = objects.write_object(&commit).unwrap().detach().to_string();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("refs/heads/main"), format!("{commit}\n")).unwrap();
    commit
}
