//! The environments of a tree without their objects: static ones from their files, inline ones from their programs.

use super::answer::{EnvironmentList, Target};
use super::{EnvironmentLocation, Renderer, blocking, inline_settings, locate, locate_in};
use crate::base::model::RepoPath;
use crate::base::parallel;
use crate::rendering::jsonnet::{EvalError, EvalRequest, Evaluation};
use crate::rendering::tanka::environment::Environment;
use crate::rendering::tanka::layout::{self, Layout};
use crate::rendering::tanka::listing::{Listing, PartialListing, TreeLookup};
use crate::rendering::tanka::process::is_environment;
use crate::rendering::tanka::script::{self, EntrypointScript};
use crate::rendering::tanka::spec::ParsedEnvironment;
use crate::rendering::tanka::{TankaError, extract};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Renderer {
    /// Lists all environments below a directory, without their objects. Vendored packages are skipped.
    pub async fn list(
        &self,
        directory: &str,
        cancel: &CancellationToken,
    ) -> Result<EnvironmentList, TankaError> {
        let tree = Arc::clone(&self.tree);
        let directory = directory.to_owned();
        let places = blocking(move || {
            let start = layout::start_directory(&TreeLookup(tree.as_ref()), &directory)?;
            let below = match start.as_str() {
                "" => Listing::read(tree.as_ref())?,
                start => Listing::new(Arc::new(tree.files_below(start)?)),
            };
            let names = PartialListing {
                tree: tree.as_ref(),
                start: &start,
                below: &below,
            };
            let entrypoints = layout::entrypoints(&names, &below, &start)?;
            Ok(parallel::map(entrypoints, |entrypoint| {
                let place = locate_in(tree.as_ref(), &names, entrypoint.as_str());
                (entrypoint, place)
            }))
        });
        let looked = self.environments(places.await?, cancel).await?;
        if cancel.is_cancelled() {
            return Err(EvalError::Cancelled.into());
        }
        Ok(EnvironmentList::from_results(looked))
    }

    /// Returns the settings of the inline environments of these entry points, without their objects. Failures are
    /// independent.
    pub async fn settings_of(
        &self,
        entrypoints: Vec<RepoPath>,
        cancel: &CancellationToken,
    ) -> Result<Vec<(RepoPath, Result<Vec<Environment>, TankaError>)>, TankaError> {
        let tree = Arc::clone(&self.tree);
        let places = blocking(move || {
            let places = entrypoints.into_iter().map(|entrypoint| {
                let place = locate(tree.as_ref(), entrypoint.as_str());
                (entrypoint, place)
            });
            Ok(places.collect())
        });
        let looked = self.environments(places.await?, cancel).await?;
        let settings = looked.into_iter().map(|(entrypoint, found)| {
            let placed = |parsed: ParsedEnvironment| parsed.check_destination(entrypoint.as_str());
            let found = found.and_then(|found| found.into_iter().map(placed).collect());
            (entrypoint, found)
        });
        Ok(settings.collect())
    }

    /// Returns the environments at these locations. Programs are evaluated only for inline environments, all in one
    /// batch.
    async fn environments(
        &self,
        places: Vec<(RepoPath, Result<EnvironmentLocation, TankaError>)>,
        cancel: &CancellationToken,
    ) -> Result<Vec<(RepoPath, Result<Vec<ParsedEnvironment>, TankaError>)>, TankaError> {
        let (mut looked, mut inline, mut requests) = (Vec::new(), Vec::new(), Vec::new());
        for (entrypoint, place) in places {
            let parsed = match place {
                Ok(EnvironmentLocation {
                    layout,
                    settings: None,
                }) => match self.environments_script(&layout) {
                    Ok(request) => {
                        requests.push(request);
                        inline.push((entrypoint, layout));
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Ok(EnvironmentLocation {
                    settings: Some(settings),
                    ..
                }) => Ok(vec![settings]),
                Err(error) => Err(error),
            };
            looked.push((entrypoint, parsed));
        }
        let answers = match requests.is_empty() {
            true => Vec::new(),
            false => self.evaluator.evaluate_all(requests, &|| {}, cancel).await,
        };
        let answered = inline.into_iter().zip(answers).collect();
        let found = blocking(move || {
            Ok(parallel::map(answered, |((entrypoint, layout), answer)| {
                let found = answer.map_err(TankaError::from);
                (
                    entrypoint,
                    found.and_then(|evaluated| parse_environments(&layout, &evaluated)),
                )
            }))
        });
        looked.extend(found.await?);
        looked.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(looked)
    }

    fn environments_script(&self, layout: &Layout) -> Result<EvalRequest, TankaError> {
        let target = Target::from_path(layout.entrypoint.as_str());
        script::request(
            Arc::clone(&self.tree),
            layout,
            &target,
            None,
            &EntrypointScript::Environments,
        )
    }
}

/// Parses the environments that a script found in an entry point.
fn parse_environments(layout: &Layout, evaluated: &Evaluation) -> Result<Vec<ParsedEnvironment>, TankaError> {
    let value = serde_json::from_slice(&evaluated.json).map_err(|err| TankaError::Value(err.to_string()))?;
    let found = extract::open_lists(extract::extract(value)?)?;
    let environments = found.into_iter().filter(is_environment);
    environments
        .map(|environment| inline_settings(layout, &environment.value))
        .collect()
}
