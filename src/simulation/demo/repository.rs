//! A temporary Tanka repository with a history: three environments of thirteen objects each, and a small one that
//! uses no library.

use crate::state::workspace::Repository;
use anyhow::Context;
use gix::objs::tree::{Entry, EntryKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The environments of the applications, with the replicas of `web` and the memory of `web` and `api` in each.
pub const ENVIRONMENTS: [(&str, u32, &str, &str); 3] = [
    ("dev", 2, "256Mi", "256Mi"),
    ("staging", 2, "256Mi", "512Mi"),
    ("prod", 6, "512Mi", "1Gi"),
];

/// The file with the instructions of the demo's hook.
pub const HOOK_PROMPT: &str = "prompts/release.md";

type Files = BTreeMap<String, String>;

/// Creates the repository below a directory, and opens it.
pub fn open_in(directory: &Path) -> anyhow::Result<Arc<Repository>> {
    let git = directory.join("infra.git");
    create(&git)?;
    Ok(Repository::open_local(
        "infra",
        &git,
        Some("main"),
        &directory.join("bases"),
    )?)
}

/// Creates a bare repository with the branch `main` at `path` and returns its newest commit.
pub fn create(path: &Path) -> anyhow::Result<String> {
    let repository = gix::init_bare(path).context("the demo repository could not be created")?;
    Ok(commit_all(&repository)?.0.to_string())
}

/// Creates a bare repository like [`create`], with one more commit that has these files besides. Returns the id of that commit.
pub fn create_with(path: &Path, more: &[(&str, &str)]) -> anyhow::Result<String> {
    let repository = gix::init_bare(path).context("the repository could not be created")?;
    Ok(commit_with(&repository, more)?.to_string())
}

/// Adds files to a repository that [`create`] made, as one more commit of its branch.
pub fn publish(path: &Path, more: &[(&str, &str)]) -> anyhow::Result<()> {
    let repository = gix::open_opts(path, gix::open::Options::isolated())
        .context("the demo repository could not be opened")?;
    commit_with(&repository, more)?;
    Ok(())
}

/// Stores all commits and one more, which has these files besides. Returns the id of that commit.
fn commit_with(repository: &gix::Repository, more: &[(&str, &str)]) -> anyhow::Result<gix::ObjectId> {
    let (parent, mut files) = commit_all(repository)?;
    for (name, text) in more {
        files.insert((*name).to_owned(), (*text).to_owned());
    }
    let commit = commit_files(repository, &files, "more files", 3, Some(parent))?;
    set_main(repository, commit)?;
    Ok(commit)
}

/// Creates a checkout at `path`: a repository with the same commits, and the files of the newest one.
#[allow(clippy::disallowed_methods, reason = "the demo makes its own checkout")]
pub fn check_out(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path)?;
    let repository = gix::init(path).context("the checkout could not be created")?;
    let (_, files) = commit_all(&repository)?;
    for (name, text) in files {
        let file = path.join(name);
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

/// Stores all commits, and the branch `main`. Returns the newest commit and its files.
fn commit_all(repository: &gix::Repository) -> anyhow::Result<(gix::ObjectId, Files)> {
    let mut files = library();
    let first = commit_files(
        repository,
        &files,
        "lib: one application is a Deployment, a Service and a ConfigMap",
        0,
        None,
    )?;
    for (environment, replicas, web_memory, api_memory) in ENVIRONMENTS {
        let directory = format!("environments/{environment}");
        files.insert(
            format!("{directory}/main.jsonnet"),
            main_jsonnet(environment, replicas, web_memory, api_memory),
        );
        files.insert(format!("{directory}/spec.json"), spec_json(environment));
    }
    files.insert(
        "environments/monitoring/main.jsonnet".to_owned(),
        MONITORING.to_owned(),
    );
    files.insert(
        "environments/monitoring/spec.json".to_owned(),
        spec_json("monitoring"),
    );
    let second = commit_files(
        repository,
        &files,
        "environments: dev, staging, prod and monitoring",
        1,
        Some(first),
    )?;
    files.insert(HOOK_PROMPT.to_owned(), RELEASE_PROMPT.to_owned());
    let third = commit_files(
        repository,
        &files,
        "prompts: what to do when web is released",
        2,
        Some(second),
    )?;
    set_main(repository, third)?;
    Ok((third, files))
}

/// Sets the branch `main` to a commit. It is written as a file, because a log of the branch would need the name of a user, and
/// in one move, because a server may read it at the same time.
#[allow(clippy::disallowed_methods, reason = "the demo makes its own repository")]
fn set_main(repository: &gix::Repository, commit: gix::ObjectId) -> anyhow::Result<()> {
    let git = repository.git_dir();
    std::fs::create_dir_all(git.join("refs/heads"))?;
    let unfinished = git.join("unfinished");
    for (name, text) in [
        ("refs/heads/main", format!("{commit}\n")),
        ("HEAD", "ref: refs/heads/main\n".to_owned()),
    ] {
        std::fs::write(&unfinished, text)?;
        std::fs::rename(&unfinished, git.join(name))?;
    }
    Ok(())
}

/// The number of objects in one of [`ENVIRONMENTS`]: a namespace, and three for each application.
pub const OBJECTS_PER_ENVIRONMENT: usize = 13;

fn library() -> Files {
    let files = [
        ("README.md", README),
        (
            "jsonnetfile.json",
            "{\n  \"version\": 1,\n  \"dependencies\": [],\n  \"legacyImports\": false\n}\n",
        ),
        ("lib/app.libsonnet", APP_LIBSONNET),
    ];
    files
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect()
}

fn main_jsonnet(environment: &str, replicas: u32, web_memory: &str, api_memory: &str) -> String {
    let worker = match environment {
        "prod" => "\n    memoryMi: 2 * super.memoryMi,",
        _ => "",
    };
    format!(
        "local app = import 'app.libsonnet';

{{
  namespace: app.namespace('{environment}'),

  web: app.new('web', '{environment}') {{
    image: 'registry.example.com/web:1.8.3',
    replicas: {replicas},
    memory: '{web_memory}',
  }},

  api: app.new('api', '{environment}') {{
    image: 'registry.example.com/api:4.2.0',
    replicas: 2,
    memory: '{api_memory}',
  }},

  worker: app.new('worker', '{environment}') {{
    image: 'registry.example.com/worker:2.0.1',
    config+: {{ LOG_LEVEL: 'info' }},{worker}
  }},

  cache: app.new('cache', '{environment}') {{
    image: 'registry.example.com/cache:7.4.1',
    memory: '1Gi',
  }},
}}
"
    )
}

fn spec_json(environment: &str) -> String {
    format!(
        "{{
  \"apiVersion\": \"tanka.dev/v1alpha1\",
  \"kind\": \"Environment\",
  \"metadata\": {{
    \"name\": \"environments/{environment}\"
  }},
  \"spec\": {{
    \"apiServer\": \"https://{environment}.k8s.example.com\",
    \"namespace\": \"{environment}\"
  }}
}}
"
    )
}

/// Stores the files as one more commit and returns its id.
fn commit_files(
    repository: &gix::Repository,
    files: &Files,
    message: &str,
    day: i64,
    parent: Option<gix::ObjectId>,
) -> anyhow::Result<gix::ObjectId> {
    let entries: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let tree = write_tree(repository, &entries)?;
    let author = gix::actor::Signature {
        name: "Dana Demo".into(),
        email: "dana@example.com".into(),
        // The time is fixed so that the demo's commit ids are always the same.
        time: gix::date::Time {
            seconds: 1_760_000_000 + day * 86_400,
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
    Ok(repository.write_object(&commit)?.detach())
}

/// Writes one directory level: files as blobs, the rest grouped into sub-trees. Entries are sorted.
fn write_tree(repository: &gix::Repository, entries: &[(&str, &str)]) -> anyhow::Result<gix::ObjectId> {
    let mut tree = gix::objs::Tree::empty();
    for group in entries.chunk_by(|(left, _), (right, _)| first(left) == first(right)) {
        let Some((path, text)) = group.first() else {
            continue;
        };
        let name = first(path);
        let (kind, oid) = match path.split_once('/') {
            None => (EntryKind::Blob, repository.write_blob(text)?.detach()),
            Some(_) => {
                let below: Vec<(&str, &str)> = group
                    .iter()
                    .filter_map(|(path, text)| Some((path.split_once('/')?.1, *text)))
                    .collect();
                (EntryKind::Tree, write_tree(repository, &below)?)
            }
        };
        tree.entries.push(Entry {
            mode: kind.into(),
            filename: name.into(),
            oid,
        });
    }
    tree.entries.sort();
    Ok(repository.write_object(&tree)?.detach())
}

fn first(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

const README: &str = "\
# infra

Configuration of the demo applications, one Tanka environment per stage.
";

const MONITORING: &str = "\
{
  alerts: {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'alerts', namespace: 'monitoring' },
    data: { 'rules.yaml': 'groups: []\\n' },
  },
}
";

const RELEASE_PROMPT: &str = "\
A new version of the web application was released. Set the image tag of `web` to the released version
in the environments `dev` and `staging`. Leave `prod` alone: it is promoted by hand. Change nothing else.
";

const APP_LIBSONNET: &str = "\
{
  namespace(name): {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: name },
  },

  // One application: a Deployment, a Service and a ConfigMap.
  new(name, namespace): {
    local this = self,
    image:: error name + ' needs an image',
    replicas:: 1,
    memoryMi:: 128,
    memory:: self.memoryMi + 'Mi',
    config:: {},

    deployment: {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: name, namespace: namespace, labels: { app: name } },
      spec: {
        replicas: this.replicas,
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels: { app: name } },
          spec: {
            containers: [{
              name: name,
              image: this.image,
              envFrom: [{ configMapRef: { name: name } }],
              resources: { limits: { memory: this.memory } },
            }],
          },
        },
      },
    },

    service: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: name, namespace: namespace },
      spec: { selector: { app: name }, ports: [{ port: 80, targetPort: 8080 }] },
    },

    configMap: {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: name, namespace: namespace },
      data: this.config,
    },
  },
}
";

#[cfg(test)]
mod tests {
    use super::{create, create_with};

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn the_demo_repository_is_the_same_every_time() {
        let directory = tempfile::tempdir().unwrap();
        let one = create(&directory.path().join("one.git")).unwrap();
        let two = create(&directory.path().join("two.git")).unwrap();
        assert_eq!(one, two);
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "a test")]
    fn more_files_are_one_more_commit() {
        let directory = tempfile::tempdir().unwrap();
        let git = directory.path().join("one.git");
        let newest = create_with(&git, &[(".drydock/pipelines.yaml", "pipelines: {}\n")]).unwrap();
        let repository = gix::open_opts(&git, gix::open::Options::isolated()).unwrap();
        let id: gix::ObjectId = newest.parse().unwrap();
        let commit = repository.find_commit(id).unwrap();
        assert_eq!(commit.parent_ids().count(), 1);
        let tree = commit.tree().unwrap();
        assert!(
            tree.lookup_entry_by_path(".drydock/pipelines.yaml")
                .unwrap()
                .is_some()
        );
        assert!(tree.lookup_entry_by_path("lib/app.libsonnet").unwrap().is_some());
    }
}
