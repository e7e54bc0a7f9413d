//! The checks that follow from a comparison. A check without access to all its inputs never passes.

use super::affected::TouchedEntrypoints;
use super::failure::line;
use super::render_cache::CrossCheckVerdict;
use super::rendering::RenderedSides;
use super::request::{CompareRequest, CrossCheckWanted};
use super::unresolved::unresolved_imports;
use crate::base::model::{Check, CheckState, FileChange, FileMode, RepoPath, quoted};
use crate::base::redact::Redactor;
use crate::rendering::jsonnet::{KnownDifference, syntax};
use crate::rendering::review::{Impact, NotProven, Report};

/// Detail of a check that has nothing to examine.
pub const NO_ENVIRONMENTS: &str = "no Tanka environments here";

const PARSES: &str = "every changed Jsonnet file parses";
const RESOLVES: &str = "imports resolve";
const RENDERS: &str = "every affected environment renders";
const AGREE: &str = "both engines agree";
/// Detail of the cross-check before the second engine was run.
const CROSS_CHECK_PENDING: &str = "the second engine runs before this counts as checked";
/// Detail of the cross-check if it was not requested.
const CROSS_CHECK_OFF: &str = "the second engine was not used";

/// Maximum number of failures that one check lists.
const FAILING_MAX: usize = 5;

/// The results of a comparison that the report does not contain.
#[derive(Debug)]
pub(super) struct CheckInputs {
    has_environments: bool,
    /// Changed Jsonnet files that were examined.
    parsed: usize,
    unreadable: Vec<String>,
    /// Changed Jsonnet files that an environment uses.
    used: usize,
    unused: Vec<RepoPath>,
    unresolved: Vec<String>,
    rendered: usize,
    /// Rendered entry points without a cross-check.
    not_cross_checked: usize,
    why_not_cross_checked: &'static str,
    /// A known difference between the engines.
    known: Option<KnownDifference>,
    disagreeing: Vec<String>,
    unfinished: Vec<String>,
}

/// The checks and their summary.
#[derive(Debug)]
pub(super) struct CheckResults {
    pub(super) checks: Vec<Check>,
    /// The failures that the change causes, one line each.
    pub(super) failing: Vec<String>,
    /// The reason why something could not be examined.
    pub(super) unknown: Option<String>,
}

/// The environments, grouped by the result of rendering.
#[derive(Debug, Default)]
struct RenderCounts {
    broken: Vec<String>,
    /// Environments that do not render on the base either, so that the effect of the change is unknown.
    broken_before: Vec<String>,
    skipped: Vec<String>,
    rendered: usize,
}

impl RenderCounts {
    fn from_report(report: &Report) -> Self {
        let mut rendering = Self::default();
        for environment in &report.environments {
            let name = quoted(&environment.name);
            match &environment.impact {
                Impact::NotProven {
                    reason: NotProven::FailsInWorkspace { workspace },
                } => rendering.broken.push(format!("{name}: {}", workspace.message)),
                Impact::NotProven {
                    reason: NotProven::FailsOnBoth { workspace, .. },
                } => {
                    let why = format!("{name}, which also fails on the base: {}", workspace.message);
                    rendering.broken_before.push(why);
                }
                Impact::NotProven {
                    reason: NotProven::NotLookedAt { why },
                } => rendering.skipped.push(format!("{name}: {why}")),
                Impact::NotProven {
                    reason: NotProven::FailsOnBase { .. },
                }
                | Impact::Affected { .. } => rendering.rendered += 1,
                Impact::Unaffected { .. } => {}
            }
        }
        rendering
    }
}

impl CheckInputs {
    pub(super) fn new(asked: &CompareRequest, touched: &TouchedEntrypoints, both: &RenderedSides) -> Self {
        let sides = &asked.sides;
        let changed: Vec<(&RepoPath, &FileChange)> = sides
            .changes
            .iter()
            .filter(|change| is_jsonnet(change))
            .map(|change| (&change.path, change))
            .collect();
        let is_used = |path: &RepoPath| touched.workspace.is_used(path);
        let (used, unused): (Vec<_>, Vec<_>) = changed.into_iter().partition(|(path, _)| is_used(path));
        // Unused files of a package may contain anything, such as invalid test input.
        let own: Vec<_> = unused
            .into_iter()
            .filter(|(path, _)| !is_vendored(path))
            .collect();
        let all = used.iter().chain(&own);
        let mut seen = Self {
            has_environments: touched.has_environments(),
            parsed: used.len() + own.len(),
            unreadable: all
                .filter_map(|(path, change)| unreadable(path, change))
                .collect(),
            used: used.len(),
            unused: own.into_iter().map(|(path, _)| path.clone()).collect(),
            unresolved: unresolved_imports(touched, sides.workspace.as_ref()),
            rendered: 0,
            not_cross_checked: 0,
            why_not_cross_checked: match asked.cross_check {
                CrossCheckWanted::Now | CrossCheckWanted::Later => CROSS_CHECK_PENDING,
                CrossCheckWanted::Never => CROSS_CHECK_OFF,
            },
            known: None,
            disagreeing: Vec::new(),
            unfinished: Vec::new(),
        };
        seen.add_cross_checks(both);
        seen
    }

    fn add_cross_checks(&mut self, both: &RenderedSides) {
        for (entrypoint, outcome) in &both.workspace {
            let Ok(rendered) = outcome else { continue };
            self.rendered += 1;
            match &rendered.cross_check {
                CrossCheckVerdict::Agrees => {}
                CrossCheckVerdict::DiffersAsKnown { known } => self.known = Some(*known),
                CrossCheckVerdict::NotAsked => self.not_cross_checked += 1,
                CrossCheckVerdict::Differs { path } => {
                    let at = quoted(path);
                    self.disagreeing.push(format!("`{entrypoint}`: at {at}"));
                }
                CrossCheckVerdict::Refuses { why } => self.disagreeing.push(format!("`{entrypoint}`: {why}")),
                CrossCheckVerdict::Unfinished { why } => {
                    self.unfinished.push(format!("`{entrypoint}`: {why}"))
                }
            }
        }
    }

    /// Returns the checks in a fixed order, and their summary.
    pub(super) fn results(&self, report: &Report, redactor: &Redactor) -> CheckResults {
        let rendering = RenderCounts::from_report(report);
        let redacted = |text: &str| redactor.redact(&line(text)).into_owned();
        let mut checks = vec![
            self.parses(),
            self.resolves(),
            self.renders(&rendering),
            self.agree(),
        ];
        for check in &mut checks {
            check.detail = redacted(&check.detail);
        }
        let failing = [
            (PARSES, &self.unreadable),
            (RESOLVES, &self.unresolved),
            (RENDERS, &rendering.broken),
            (AGREE, &self.disagreeing),
        ];
        let failing = failing.into_iter().flat_map(|(name, found)| {
            let shown = found.iter().take(FAILING_MAX);
            let left = found.len().saturating_sub(FAILING_MAX);
            let left = (left > 0).then(|| format!("{name}: no, {left} more times"));
            shown
                .map(|found| redacted(&format!("{name}: no, {found}")))
                .chain(left)
                .collect::<Vec<_>>()
        });
        let unfinished = self
            .unfinished
            .iter()
            .map(|what| format!("the second engine did not finish {what}"));
        let unheard = (self.not_cross_checked > 0).then(|| self.why_not_cross_checked.to_owned());
        let unknown: Vec<String> = rendering
            .broken_before
            .iter()
            .chain(&rendering.skipped)
            .cloned()
            .chain(unfinished)
            .chain(unheard)
            .collect();
        CheckResults {
            failing: failing.collect(),
            unknown: (!unknown.is_empty()).then(|| redacted(&first_of(&unknown))),
            checks,
        }
    }

    fn parses(&self) -> Check {
        match (self.unreadable.first(), self.parsed) {
            (Some(_), _) => check(PARSES, CheckState::Fail, first_of(&self.unreadable)),
            (None, 0) => check(PARSES, CheckState::NotRun, "no Jsonnet file changed"),
            (None, _) => check(PARSES, CheckState::Pass, ""),
        }
    }

    fn resolves(&self) -> Check {
        let unused = self.unused.first().map(|path| match self.unused.len() {
            1 => format!("no environment uses `{path}`, so its imports were not checked"),
            all => format!(
                "no environment uses `{path}` and {} more, so their imports were not checked",
                all - 1
            ),
        });
        let unused = unused.unwrap_or_default();
        if !self.has_environments {
            return check(RESOLVES, CheckState::NotRun, NO_ENVIRONMENTS);
        }
        match (self.unresolved.is_empty(), self.used, self.unused.len()) {
            (false, _, _) => check(RESOLVES, CheckState::Fail, first_of(&self.unresolved)),
            (true, 0, 0) => check(RESOLVES, CheckState::NotRun, "no Jsonnet file changed"),
            (true, 0, _) => check(RESOLVES, CheckState::NotRun, unused),
            (true, _, _) => check(RESOLVES, CheckState::Pass, unused),
        }
    }

    fn renders(&self, rendering: &RenderCounts) -> Check {
        if !self.has_environments {
            return check(RENDERS, CheckState::NotRun, NO_ENVIRONMENTS);
        }
        let failed: Vec<String> = rendering
            .broken
            .iter()
            .chain(&rendering.broken_before)
            .cloned()
            .collect();
        let rendered = rendering.rendered + self.rendered;
        match (failed.is_empty(), rendering.skipped.is_empty(), rendered) {
            (false, _, _) => check(RENDERS, CheckState::Fail, first_of(&failed)),
            (true, false, _) => check(RENDERS, CheckState::NotRun, first_of(&rendering.skipped)),
            (true, true, 0) => check(RENDERS, CheckState::NotRun, "no environment is affected"),
            (true, true, _) => check(RENDERS, CheckState::Pass, ""),
        }
    }

    fn agree(&self) -> Check {
        if !self.has_environments {
            return check(AGREE, CheckState::NotRun, NO_ENVIRONMENTS);
        }
        match (
            self.disagreeing.is_empty(),
            self.unfinished.is_empty(),
            self.rendered,
        ) {
            (false, _, _) => check(AGREE, CheckState::Fail, first_of(&self.disagreeing)),
            (true, false, _) => {
                let detail = format!("the second engine did not finish {}", first_of(&self.unfinished));
                check(AGREE, CheckState::NotRun, detail)
            }
            (true, true, 0) => check(AGREE, CheckState::NotRun, "nothing was rendered"),
            (true, true, _) if self.not_cross_checked > 0 => {
                check(AGREE, CheckState::NotRun, self.why_not_cross_checked)
            }
            (true, true, _) => {
                let known = self
                    .known
                    .map(|known| format!("except for {known}, see docs/tanka.md"));
                check(AGREE, CheckState::Pass, known.unwrap_or_default())
            }
        }
    }
}

fn check(name: &str, state: CheckState, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        state,
        detail: detail.into(),
    }
}

/// Returns the first entry, preceded by the number of the others.
fn first_of(list: &[String]) -> String {
    match list {
        [] => String::new(),
        [only] => only.clone(),
        [first, others @ ..] => format!("{} more; {first}", others.len()),
    }
}

fn is_jsonnet(change: &FileChange) -> bool {
    let name = change.path.as_str();
    let is_file = change
        .after
        .as_ref()
        .is_some_and(|after| after.mode != FileMode::Symlink);
    is_file && (name.ends_with(".jsonnet") || name.ends_with(".libsonnet"))
}

fn is_vendored(path: &RepoPath) -> bool {
    path.as_str().split('/').any(|component| component == "vendor")
}

fn unreadable(path: &RepoPath, change: &FileChange) -> Option<String> {
    let content = &change.after.as_ref()?.content;
    let Ok(text) = std::str::from_utf8(content) else {
        return Some(format!("`{path}` is not UTF-8 text"));
    };
    let error = syntax::parse(text).err()?;
    Some(format!("`{path}`:{error}"))
}
