//! Environments whose settings change, and the destinations of all others. What cannot be determined is reported as
//! unknown.

mod static_settings;
mod report;

pub(super) use report::MoveReport;
pub(super) use static_settings::static_moves;

use super::affected::TouchedEntrypoints;
use super::environments::dispute;
use super::render_cache::CachedRender;
use super::rendering::{RenderOutcome, RenderedSides};
use super::request::{EnvironmentSelection, Sides};
use super::{CompareError, Comparer, ComparisonScope, blocking};
use crate::base::model::{RepoPath, SPEC_FILE};
use crate::rendering::jsonnet::EvalError;
use crate::rendering::tanka::{
    Destination, Environment, ExistingEnvironment, TankaError, environment_of, settings,
};
use crate::state::workspace::Tree;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// An environment whose settings differ or may differ.
#[derive(Clone, Debug)]
pub(super) struct EnvironmentMove {
    /// The directory that a grant for the environment names; `None` for the root, which all environments share.
    owner: Option<String>,
    name: String,
    before: Option<Environment>,
    /// The settings after the change, or the reason why they are unknown.
    after: Result<Option<Environment>, String>,
}

/// The environments whose settings differ, and the destinations of the others before the change.
#[derive(Debug, Default)]
pub(super) struct EnvironmentMoves {
    moved: Vec<EnvironmentMove>,
    existing: Vec<ExistingEnvironment>,
}

/// The settings of the environments of an entry point on one side.
type SideSettings = Result<Vec<Environment>, String>;

/// The settings that the programs define, for the evaluated entry points.
type EvaluatedSettings = HashMap<RepoPath, SideSettings>;

/// The sorted files of a tree, to find out for many entry points whether their environments are inline.
struct TreeFiles(Arc<Vec<RepoPath>>);

impl TreeFiles {
    fn of(tree: &dyn Tree) -> Result<Self, CompareError> {
        Ok(Self(tree.files()?))
    }

    /// True if the entry point exists without a `spec.json` beside it.
    fn has_inline(&self, entrypoint: &RepoPath) -> bool {
        let is_there = |path: &str| self.0.binary_search_by(|file| file.as_str().cmp(path)).is_ok();
        let spec = match entrypoint.parent() {
            Some(directory) => format!("{directory}/{SPEC_FILE}"),
            None => SPEC_FILE.to_owned(),
        };
        is_there(entrypoint.as_str()) && !is_there(&spec)
    }
}

/// Returns the environments of one side of an entry point by name. A counter distinguishes equal names.
fn by_name(found: &[Environment]) -> BTreeMap<(String, usize), Environment> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut named = BTreeMap::new();
    for environment in found {
        let count = seen.entry(&environment.metadata.name).or_default();
        *count += 1;
        named.insert((environment.metadata.name.clone(), *count), environment.clone());
    }
    named
}

/// Returns the environments of one entry point that differ, given the settings from its program on both sides.
fn moves_of_program(
    entrypoint: &RepoPath,
    base: &[RepoPath],
    before: SideSettings,
    after: SideSettings,
) -> Vec<EnvironmentMove> {
    let owner = environment_of(entrypoint, base).map(str::to_owned);
    let after = match after {
        Ok(after) => by_name(&after),
        Err(why) => {
            let name = entrypoint.parent().unwrap_or(entrypoint.as_str()).to_owned();
            return vec![EnvironmentMove {
                owner,
                name,
                before: None,
                after: Err(why),
            }];
        }
    };
    // If the earlier settings are unknown, all current ones count as new.
    let before = by_name(&before.unwrap_or_default());
    let names: BTreeSet<&(String, usize)> = before.keys().chain(after.keys()).collect();
    let moved = names.into_iter().filter_map(|name| {
        let (was, is) = (before.get(name), after.get(name));
        (was != is).then(|| EnvironmentMove {
            owner: owner.clone(),
            name: name.0.clone(),
            before: was.cloned(),
            after: Ok(is.cloned()),
        })
    });
    moved.collect()
}

/// Returns the settings in a rendered entry point.
fn settings_of_rendered(rendered: &CachedRender) -> SideSettings {
    if let Some(dispute) = dispute(rendered) {
        return Err(dispute.message);
    }
    let settings = rendered
        .members
        .iter()
        .map(|member| match member.settings.as_deref() {
            Some(Ok(settings)) => Ok(settings.clone()),
            Some(Err(why)) => Err(why.clone()),
            None => Err("its settings were not read".to_owned()),
        });
    settings.collect()
}

impl Comparer {
    /// Returns the changed settings of the requested environments, given the rendered values and the static
    /// environments that differ.
    pub(super) async fn moves(
        self: &Arc<Self>,
        sides: &Sides,
        subject: &ComparisonScope,
        both: &RenderedSides,
        cancel: &CancellationToken,
    ) -> Result<EnvironmentMoves, CompareError> {
        let touched = &subject.touched;
        let mut moved = subject.static_moves.clone();
        if let Some(EnvironmentSelection { path: only, .. }) = &subject.only {
            let directory = only.rsplit_once('/').map_or(".", |(directory, _)| directory);
            moved.retain(|moved| moved.name == directory);
        }
        let base = sides.base.files()?;
        let before = self
            .settings_of_side(&sides.base, touched, &both.base, cancel)
            .await?;
        let after = self
            .settings_of_side(&sides.workspace, touched, &both.workspace, cancel)
            .await?;
        for affected in &touched.affected {
            let entrypoint = &affected.entrypoint;
            // An entry point that is missing or static on a side has no settings in its program.
            let of = |looked: &EvaluatedSettings| looked.get(entrypoint).cloned().unwrap_or(Ok(Vec::new()));
            moved.extend(moves_of_program(entrypoint, &base, of(&before), of(&after)));
        }
        let residents = match moved.iter().any(|moved| moved.new_destination().is_some()) {
            true => self.existing_environments(sides, touched, before, cancel).await?,
            false => Vec::new(),
        };
        Ok(EnvironmentMoves {
            moved,
            existing: residents,
        })
    }

    /// Returns the settings in the programs of one side that the change touches. The settings may be known even if
    /// the objects of a program fail.
    async fn settings_of_side(
        &self,
        tree: &Arc<dyn Tree>,
        touched: &TouchedEntrypoints,
        outcomes: &BTreeMap<RepoPath, RenderOutcome>,
        cancel: &CancellationToken,
    ) -> Result<EvaluatedSettings, CompareError> {
        let (mut looked, mut failed) = (EvaluatedSettings::new(), Vec::new());
        let programs = TreeFiles::of(tree.as_ref())?;
        for affected in &touched.affected {
            let entrypoint = &affected.entrypoint;
            if !programs.has_inline(entrypoint) {
                continue;
            }
            match outcomes.get(entrypoint) {
                Some(Ok(rendered)) => {
                    looked.insert(entrypoint.clone(), settings_of_rendered(rendered));
                }
                Some(Err(_)) | None => failed.push(entrypoint.clone()),
            }
        }
        looked.extend(self.evaluate_settings(tree, failed, cancel).await?);
        Ok(looked)
    }

    /// Evaluates only the settings of entry points.
    async fn evaluate_settings(
        &self,
        tree: &Arc<dyn Tree>,
        entrypoints: Vec<RepoPath>,
        cancel: &CancellationToken,
    ) -> Result<EvaluatedSettings, CompareError> {
        if entrypoints.is_empty() {
            return Ok(EvaluatedSettings::new());
        }
        let found = self.renderer(tree).settings_of(entrypoints.clone(), cancel).await;
        if cancel.is_cancelled() {
            return Err(CompareError::Cancelled);
        }
        match found {
            Ok(found) => Ok(found
                .into_iter()
                .map(|(entrypoint, found)| (entrypoint, found.map_err(|error| error.to_string())))
                .collect()),
            Err(TankaError::Evaluation(EvalError::Cancelled)) => Err(CompareError::Cancelled),
            Err(error) => {
                let failed = |entrypoint| (entrypoint, Err(error.to_string()));
                Ok(entrypoints.into_iter().map(failed).collect())
            }
        }
    }

    /// Returns the destinations of all environments before the change. `known` contains those that were already
    /// read.
    async fn existing_environments(
        self: &Arc<Self>,
        sides: &Sides,
        touched: &TouchedEntrypoints,
        mut known: EvaluatedSettings,
        cancel: &CancellationToken,
    ) -> Result<Vec<ExistingEnvironment>, CompareError> {
        let base = Arc::clone(&sides.base);
        let mut residents =
            blocking(move || Ok(settings::existing_environments(base.as_ref(), None)?)).await?;
        let programs = TreeFiles::of(sides.base.as_ref())?;
        let entrypoints = touched.base.closures().keys();
        let unknown = entrypoints
            .filter(|entrypoint| !known.contains_key(*entrypoint) && programs.has_inline(entrypoint));
        let unknown: Vec<RepoPath> = unknown.cloned().collect();
        known.extend(self.evaluate_settings(&sides.base, unknown, cancel).await?);
        for (entrypoint, found) in known {
            let owner = entrypoint.parent().map(str::to_owned);
            let resident = |place| ExistingEnvironment {
                owner: owner.clone(),
                destination: place,
            };
            match found {
                Ok(found) => residents.extend(
                    found
                        .iter()
                        .map(|found| resident(Some(Destination::from_settings(found)))),
                ),
                Err(_) => residents.push(resident(None)),
            }
        }
        Ok(residents)
    }

    /// Returns the moves of a change that was not compared: changed settings of static environments, and an unknown
    /// destination for each touched inline environment. Reads files and may block.
    pub(super) fn uncompared_moves(&self, sides: &Sides, why: &str) -> EnvironmentMoves {
        let unknown = |owner: Option<String>, name: String| EnvironmentMove {
            owner,
            name,
            before: None,
            after: Err(why.to_owned()),
        };
        let attempt = || -> Result<EnvironmentMoves, CompareError> {
            let mut moved = static_moves(sides)?;
            let mut residents = settings::existing_environments(sides.base.as_ref(), None)?;
            let touched = self.graphs.touched_entrypoints(sides, None, self.rendered_max)?;
            let (before, after) = (
                TreeFiles::of(sides.base.as_ref())?,
                TreeFiles::of(sides.workspace.as_ref())?,
            );
            for affected in &touched.affected {
                let entrypoint = &affected.entrypoint;
                if after.has_inline(entrypoint) {
                    let owner = environment_of(entrypoint, &before.0).map(str::to_owned);
                    let name = entrypoint.parent().unwrap_or(entrypoint.as_str()).to_owned();
                    moved.push(unknown(owner, name));
                }
            }
            for entrypoint in touched.base.closures().keys() {
                if before.has_inline(entrypoint) {
                    residents.push(ExistingEnvironment {
                        owner: entrypoint.parent().map(str::to_owned),
                        destination: None,
                    });
                }
            }
            Ok(EnvironmentMoves {
                moved,
                existing: residents,
            })
        };
        attempt().unwrap_or_else(|_| EnvironmentMoves::unknown(why))
    }
}

impl EnvironmentMoves {
    fn unknown(why: &str) -> Self {
        let moved = EnvironmentMove {
            owner: None,
            name: "all environments".to_owned(),
            before: None,
            after: Err(why.to_owned()),
        };
        Self {
            moved: vec![moved],
            existing: Vec::new(),
        }
    }
}

impl EnvironmentMove {
    /// Returns the destination of the environment after the change, if it is a different one.
    fn new_destination(&self) -> Option<Destination> {
        let to = Destination::from_settings(self.after.as_ref().ok()?.as_ref()?);
        let was = self.before.as_ref().map(Destination::from_settings);
        (was.as_ref() != Some(&to)).then_some(to)
    }
}
