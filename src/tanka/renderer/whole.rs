//! Whole entry points: all environments that one renders to, static or written in it, from one evaluation. Entry points are evaluated in
//! one batch.

use super::{Place, Renderer, Target, blocking, inline_settings, place, reading};
use crate::jsonnet::{Evaluated, Import, Request, SecondOpinion};
use crate::parallel;
use crate::tanka::environment::Environment;
use crate::tanka::filter::Filter;
use crate::tanka::layout::Layout;
use crate::tanka::object::Object;
use crate::tanka::process::{is_environment, process};
use crate::tanka::script::{self, Script};
use crate::tanka::spec::Parsed;
use crate::tanka::{TankaError, extract, version};
use crate::workspace::Tree;
use futures_util::StreamExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Values that are processed together.
const PROCESSED_TOGETHER_MAX: usize = 4;

/// The SHA-256 of a value as an engine writes it. Equal ones mean equal values; two engines may write
/// one value in two ways.
pub type ValueHash = [u8; 32];

/// A rendered entry point.
#[derive(Debug)]
pub struct Whole {
    /// The environments, in the order of the program.
    pub members: Vec<Member>,
    /// The hash of its value.
    pub value: ValueHash,
    /// Every file its value depends on, and every path that was looked at in vain.
    pub imports: Arc<[Import]>,
    /// The result of the second engine's cross-check of its value.
    pub second_opinion: SecondOpinion,
}

/// One environment of an entry point.
#[derive(Debug)]
pub struct Member {
    /// The name.
    pub name: String,
    /// The namespace of its objects that name none.
    pub namespace: String,
    /// The settings, or the reason they are not known, where they are written in the program; `None` for a static environment.
    pub settings: Option<Result<Environment, String>>,
    /// The objects, in order. One that fails leaves the others as they are.
    pub objects: Result<Vec<Object>, TankaError>,
}

/// An entry point, ready to be evaluated.
struct Asked {
    layout: Layout,
    settings: Option<Parsed>,
    request: Request,
}

impl Renderer {
    /// Renders all environments of each of these entry points, in one batch, and answers in their order.
    /// Each fails alone. The names in the targets are not looked at. `done` is called whenever one more is
    /// evaluated.
    pub async fn show_all(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<Whole, TankaError>> {
        let evaluated = self.evaluated(targets, done, cancel).await;
        let bytes = evaluated.iter().flatten().map(|(_, found)| found.json.len());
        self.room.enter(bytes.sum()).await;
        futures_util::stream::iter(evaluated)
            .map(|evaluated| async move {
                let ((asked, evaluated), room) = (evaluated?, Arc::clone(&self.room));
                reading(evaluated.json.len(), move || {
                    // It goes along: nobody may wait for the value any more while it is read.
                    let _room = room;
                    whole(asked, evaluated)
                })
                .await
            })
            .buffered(PROCESSED_TOGETHER_MAX)
            .collect()
            .await
    }

    /// Does the same as [`Self::show_all`], but returns only the hash of each value and the files it depends on.
    pub async fn hash_all(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<(ValueHash, Arc<[Import]>), TankaError>> {
        let evaluated = self.evaluated(targets, done, cancel).await;
        let count = evaluated.len();
        let hashed = blocking(move || {
            let hashed = evaluated.into_iter().map(|evaluated| {
                let (_, evaluated) = evaluated?;
                Ok((hash(&evaluated.json), evaluated.imports))
            });
            Ok(hashed.collect())
        });
        hashed.await.unwrap_or_else(|error| each(count, &error))
    }

    async fn evaluated(
        &self,
        targets: Vec<Target>,
        done: &(dyn Fn() + Send + Sync),
        cancel: &CancellationToken,
    ) -> Vec<Result<(Asked, Evaluated), TankaError>> {
        let count = targets.len();
        let tree = Arc::clone(&self.tree);
        let asked = blocking(move || Ok(parallel::map(targets, |target| asked(&tree, &target))));
        let asked = match asked.await {
            Ok(asked) => asked,
            Err(error) => return each(count, &error),
        };
        let requests = asked.iter().flatten().map(|asked| asked.request.clone());
        let mut answers = self
            .evaluator
            .evaluate_all(requests.collect(), done, cancel)
            .await
            .into_iter();
        let evaluated = asked.into_iter().map(|asked| {
            let asked = asked?;
            let answer = answers
                .next()
                .unwrap_or(Err(crate::jsonnet::EvalError::Cancelled));
            Ok((asked, answer?))
        });
        evaluated.collect()
    }
}

fn hash(json: &[u8]) -> ValueHash {
    Sha256::digest(json).into()
}

/// Answers each of a batch with what keeps the whole of it from having answers.
fn each<T>(count: usize, error: &TankaError) -> Vec<Result<T, TankaError>> {
    let broken = || Err(TankaError::Broken(error.to_string()));
    std::iter::repeat_with(broken).take(count).collect()
}

fn asked(tree: &Arc<dyn Tree>, target: &Target) -> Result<Asked, TankaError> {
    let Place { layout, settings } = place(tree.as_ref(), &target.path)?;
    let environment = settings
        .as_ref()
        .map(|settings| serde_json::to_string(&settings.environment))
        .transpose()
        .map_err(|err| TankaError::Broken(err.to_string()))?;
    let request = script::request(Arc::clone(tree), &layout, target, environment, &Script::Whole)?;
    Ok(Asked {
        layout,
        settings,
        request,
    })
}

fn whole(asked: Asked, evaluated: Evaluated) -> Result<Whole, TankaError> {
    let value: Value =
        serde_json::from_slice(&evaluated.json).map_err(|err| TankaError::Value(err.to_string()))?;
    let members = match asked.settings {
        Some(settings) => vec![member(settings.environment, value)],
        None => {
            let mut found = extract::open_lists(extract::extract(value)?)?;
            found.retain(is_environment);
            let members = found.into_iter().map(|found| inline(&asked.layout, found));
            members.collect()
        }
    };
    Ok(Whole {
        members,
        value: hash(&evaluated.json),
        imports: evaluated.imports,
        second_opinion: evaluated.second_opinion,
    })
}

fn inline(layout: &Layout, mut found: Object) -> Member {
    match inline_settings(layout, &found.value) {
        Ok(parsed) => {
            let data = found.value.get_mut("data").map(Value::take).unwrap_or_default();
            let settings = parsed.clone().placed(layout.entrypoint.as_str());
            Member {
                settings: Some(settings.map_err(|error| error.to_string())),
                ..member(parsed.environment, data)
            }
        }
        Err(error) => Member {
            name: found.name().to_owned(),
            namespace: String::new(),
            settings: Some(Err(error.to_string())),
            objects: Err(error),
        },
    }
}

fn member(environment: Environment, data: Value) -> Member {
    let expected = version::check(&environment.spec.expect_versions.tanka);
    Member {
        objects: expected.and_then(|()| process(data, &environment, &Filter::default())),
        settings: None,
        name: environment.metadata.name,
        namespace: environment.spec.namespace,
    }
}
