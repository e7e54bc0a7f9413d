//! Learns the secrets of environments before anything about them is shown: the values of their `Secret`s and of
//! those of imported environments. The environments are rendered for this.

use crate::base::model::RepoPath;
use crate::base::redact::Redactor;
use crate::rendering::review::Masker;
use crate::rendering::tanka::{
    Environment, EnvironmentList, Filter, Object, RenderedEnvironment, Renderer, TankaError, Target,
};
use crate::state::workspace::{GuardedTree, Tree};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Maximum number of environments that are rendered because others import them. With more, nothing is shown.
const INNER_MAX: usize = 1_000;
/// Minimum length of a secret in bytes.
const SECRET_BYTES_MIN: usize = 8;

/// Renders an environment and learns the secrets it knows: the values of its `Secret`s, including filtered ones,
/// and those of the environments it imports.
pub async fn render_and_learn(
    renderer: &Renderer,
    tree: &GuardedTree,
    target: &Target,
    filter: &Filter,
    cancel: &CancellationToken,
) -> Result<RenderedEnvironment, TankaError> {
    let redactor = &tree.guard().redactor;
    let mut answer = renderer.render(target, &Filter::default(), cancel).await;
    let shown = answer.as_ref().ok();
    let objects = shown.into_iter().flat_map(|shown| &shown.objects);
    objects.for_each(|object| learn(object, redactor));
    let own = match shown {
        // The file may define other environments too.
        Some(shown) => {
            let is_static = shown.layout.is_static(tree);
            is_static.then(|| shown.layout.entrypoint.clone())
        }
        None => renderer.entrypoint(target, cancel).await.ok().map(|(own, _)| own),
    };
    let read = tree.entrypoints().into_iter();
    let others: Vec<RepoPath> = read
        .filter(|entrypoint| own.as_ref() != Some(entrypoint))
        .collect();
    if !others.is_empty() {
        // Nothing may be evaluated while the memory permit for large values is held. The environment is rendered
        // again afterwards.
        let is_large = renderer.has_large();
        if is_large {
            answer = Err(TankaError::Internal("what was rendered is dropped".to_owned()));
            renderer.release_memory().await;
        }
        learn_from(renderer, tree, others, cancel).await?;
        if is_large {
            answer = renderer.render(target, &Filter::default(), cancel).await;
        }
    }
    let mut rendered = answer?;
    rendered.objects.retain(|object| filter.selects(object));
    Ok(rendered)
}

/// Lists the environments below a directory. If a program computes a displayed name or setting, all its imported
/// environments are rendered first, because a `Secret` may be among them.
pub async fn list_and_learn(
    renderer: &Renderer,
    tree: &Arc<GuardedTree>,
    directory: &str,
    cancel: &CancellationToken,
) -> Result<EnvironmentList, TankaError> {
    let list = renderer.list(directory, cancel).await?;
    let read = tree.entrypoints();
    if read.is_empty() {
        return Ok(list);
    }
    let tree_there = Arc::clone(tree);
    let looking = tokio::task::spawn_blocking(move || {
        let plain = literal_entrypoints(&list, tree_there.as_ref());
        (list, read.difference(&plain).cloned().collect::<Vec<RepoPath>>())
    });
    let (list, made) = looking
        .await
        .map_err(|error| TankaError::Internal(error.to_string()))?;
    if !made.is_empty() {
        learn_from(renderer, tree, made, cancel).await?;
    }
    Ok(list)
}

/// Returns the entry points whose environments show only literal texts from their files.
fn literal_entrypoints(list: &EnvironmentList, tree: &dyn Tree) -> BTreeSet<RepoPath> {
    let (mut plain, mut made) = (BTreeSet::new(), BTreeSet::new());
    for found in &list.environments {
        let text = tree.read(&found.entrypoint).ok();
        let text = text.map(|version| String::from_utf8_lossy(&version.content).into_owned());
        let is_there = |shown: &&str| text.as_deref().is_some_and(|text| text.contains(*shown));
        match listed_texts(&found.environment).all(|shown| shown.len() < SECRET_BYTES_MIN || is_there(&shown))
        {
            true => plain.insert(found.entrypoint.clone()),
            false => made.insert(found.entrypoint.clone()),
        };
    }
    plain.difference(&made).cloned().collect()
}

/// Returns the texts of an environment that a list shows.
fn listed_texts(environment: &Environment) -> impl Iterator<Item = &str> {
    let (metadata, spec) = (&environment.metadata, &environment.spec);
    let own = [&metadata.name, &spec.namespace, &spec.api_server];
    let labels = metadata.labels.iter().flat_map(|(name, value)| [name, value]);
    let all = own.into_iter().chain(&spec.context_names).chain(labels);
    all.map(String::as_str)
}

/// Renders entry points one after the other, each with its own memory permit, and learns the values of their
/// `Secret`s.
async fn learn_from(
    renderer: &Renderer,
    tree: &GuardedTree,
    entrypoints: Vec<RepoPath>,
    cancel: &CancellationToken,
) -> Result<(), TankaError> {
    if entrypoints.len() > INNER_MAX {
        return Err(TankaError::Internal(format!(
            "it is built on more than {INNER_MAX} environments, so their secrets are not known"
        )));
    }
    let targets = entrypoints
        .iter()
        .map(|entrypoint| Target::from_path(entrypoint.as_str()));
    let apart = renderer.clone().with_memory_permit(&Arc::default());
    let answers = apart.render_all(targets.collect(), &|| {}, cancel).await;
    let members = answers.iter().flatten().flat_map(|whole| &whole.members);
    let objects = members.filter_map(|member| member.objects.as_ref().ok());
    objects
        .flatten()
        .for_each(|object| learn(object, &tree.guard().redactor));
    Ok(())
}

fn learn(object: &Object, redactor: &Redactor) {
    for held in Masker::secret_values(&object.value) {
        redactor.learn(&redactor.secrets_in_entry(&held.name, &held.value));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::render_and_learn;
    use crate::base::model::RepoPath;
    use crate::rendering::jsonnet::{CrossCheckResult, EntryPoint, EvalError, EvalRequest, Evaluation};
    use crate::rendering::tanka::testing::ReadOnlyTree;
    use crate::rendering::tanka::{Evaluate, Filter, MemoryPermit, Renderer, Target};
    use crate::state::workspace::{GuardedTree, SecretGuard, Tree};
    use async_trait::async_trait;
    use bytes::Bytes;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    /// Longer than any other test holds the permit for large values.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A large program that imports another one. The other one finishes only if the permit for large values is
    /// free.
    struct Large;

    #[async_trait]
    impl Evaluate for Large {
        async fn evaluate(
            &self,
            request: EvalRequest,
            _: &CancellationToken,
        ) -> Result<Evaluation, EvalError> {
            let EntryPoint::File(entry) = &request.entry else {
                return Err(EvalError::Cancelled);
            };
            let json = match entry.as_str() {
                "environments/large/main.jsonnet" => {
                    let other = RepoPath::parse("environments/other/main.jsonnet").unwrap();
                    request.tree.read(&other).unwrap();
                    let data = "x".repeat(1 << 20);
                    format!(
                        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{{"a":"{data}"}}}}"#
                    )
                }
                _ => {
                    let permit = MemoryPermit::default();
                    tokio::time::timeout(PATIENCE, permit.acquire(1 << 20))
                        .await
                        .unwrap();
                    "{}".to_owned()
                }
            };
            Ok(Evaluation {
                json: Bytes::from(json),
                imports: Arc::default(),
                cross_check: CrossCheckResult::NotRun,
            })
        }
    }

    #[tokio::test]
    async fn no_other_environment_is_evaluated_while_a_large_value_is_held() {
        let files = ReadOnlyTree::new(&[
            ("jsonnetfile.json", "{}"),
            ("environments/large/main.jsonnet", ""),
            ("environments/large/spec.json", "{}"),
            ("environments/other/main.jsonnet", ""),
            ("environments/other/spec.json", "{}"),
        ]);
        let tree = Arc::new(GuardedTree::new(files, SecretGuard::default()));
        let renderer = Renderer::new(Arc::clone(&tree) as Arc<dyn Tree>, Arc::new(Large));
        let (target, never) = (Target::from_path("environments/large"), CancellationToken::new());
        let shown = render_and_learn(&renderer, &tree, &target, &Filter::default(), &never).await;
        assert_eq!(shown.unwrap().objects.len(), 1);
        assert!(renderer.has_large());
    }
}
