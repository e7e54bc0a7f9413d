//! The result of a comparison, and the texts about it for people.

use super::CompareError;
use super::checks::NO_ENVIRONMENTS;
use super::failure::BrokenEnvironment;
use crate::base::model::{ChangeOverview, Check, CheckState, RequiredGrant};
use crate::base::redact::Redactor;
use crate::rendering::jsonnet::yaml;
use crate::rendering::review::{Report, ReviewInput, SettingsChange, review};
use crate::rendering::tanka::importers::AffectedEntrypoint;

/// The effects of a change.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The effects on each environment, the risks, and the effects that the request does not mention.
    pub report: Report,
    /// The built-in checks in a fixed order.
    pub checks: Vec<Check>,
    /// The failures that the change causes, one redacted line each. A change with failures is not valid.
    pub failing: Vec<String>,
    /// The reason why not everything could be examined, as one redacted line. Then the validity of the change is
    /// unknown.
    pub unknown: Option<String>,
    /// The entry points that the change touches, and the files that cause it.
    pub affected: Vec<AffectedEntrypoint>,
    /// The grants required by changed settings, in addition to those for the files.
    pub needs: Vec<RequiredGrant>,
}

impl Comparison {
    /// True if there was nothing to examine.
    fn found_nothing(&self) -> bool {
        let was_run = |check: &Check| check.state != CheckState::NotRun;
        self.report.environments.is_empty()
            && self.report.settings.is_empty()
            && !self.checks.iter().any(was_run)
    }
}

/// The texts about a change.
#[derive(Clone, Debug, Default)]
pub struct ChangeReport {
    /// The effects on environments, for a person. Empty without a comparison.
    pub effects: String,
    /// The same effects, short enough for the first screen of a phone.
    pub overview: ChangeOverview,
    /// The checks.
    pub checks: Vec<Check>,
    /// The failures that the change causes, as in [`Comparison::failing`].
    pub failing: Vec<String>,
    /// The reason why not everything could be examined, as in [`Comparison::unknown`].
    pub unknown: Option<String>,
    /// The grants required by changed settings, as in [`Comparison::needs`].
    pub needs: Vec<RequiredGrant>,
    /// The environments that do not render and the positions of their failures, for a terminal.
    pub broken: Vec<BrokenEnvironment>,
}

impl ChangeReport {
    /// Formats the report in at most this many characters, with the checks. Without a comparison, one check
    /// contains the reason, and the report contains what is known without comparing.
    pub fn new(
        compared: Result<Comparison, FailedComparison>,
        chars_max: usize,
        redactor: &Redactor,
    ) -> Self {
        let (mut effects, mut needs) = (String::new(), Vec::new());
        let mut moved = ChangeOverview::default();
        let (unknown, detail) = match compared {
            Ok(compared) if compared.found_nothing() => (None, NO_ENVIRONMENTS.to_owned()),
            Ok(compared) => {
                return Self {
                    effects: match compared.report.environments.is_empty()
                        && compared.report.settings.is_empty()
                    {
                        true => String::new(),
                        false => redactor.redact(&compared.report.text(chars_max)).into_owned(),
                    },
                    overview: overview(&compared.report, redactor),
                    broken: BrokenEnvironment::from_report(&compared.report),
                    needs: compared.needs,
                    checks: compared.checks,
                    failing: compared.failing,
                    unknown: compared.unknown,
                };
            }
            Err(uncompared) => {
                let why = redactor.redact(&uncompared.error.to_string()).into_owned();
                needs = uncompared.needs;
                if !uncompared.settings.is_empty() {
                    let input = ReviewInput {
                        settings: uncompared.settings,
                        ..ReviewInput::default()
                    };
                    let report = review(input, &[], &yaml::readable);
                    effects = redactor.redact(&report.text(chars_max)).into_owned();
                    moved = overview(&report, redactor);
                }
                (Some(why.clone()), why)
            }
        };
        let check = Check {
            name: "environments render".to_owned(),
            state: CheckState::NotRun,
            detail,
        };
        Self {
            effects,
            overview: moved,
            checks: vec![check],
            unknown,
            needs,
            ..Self::default()
        }
    }
}

fn overview(report: &Report, redactor: &Redactor) -> ChangeOverview {
    report.overview().map(|text| redactor.redact(text).into_owned())
}

/// A change that was not compared, and what is known about it.
#[derive(Debug)]
pub struct FailedComparison {
    /// The reason.
    pub error: CompareError,
    pub(super) settings: Vec<SettingsChange>,
    pub(super) needs: Vec<RequiredGrant>,
}
