//! The rule type and its input.

use crate::rendering::review::key::ObjectKey;
use crate::rendering::review::pair::Pair;
use crate::rendering::review::settings::SettingsChange;
use serde::Serialize;
use serde_json::Value;

/// The severity of a risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskSeverity {
    /// Data, access or service may be lost.
    High,
    /// Pods or requests stop, restart or are refused.
    Medium,
    /// The change is worth knowing.
    Low,
}

impl RiskSeverity {
    /// Returns the name, such as `high`.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// A rule. Its id always keeps its meaning and is never reused.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The id, such as `DD001`.
    pub id: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// The severity.
    pub severity: RiskSeverity,
    /// The reason why it matters, and advice, in a few sentences.
    pub explanation: &'static str,
    pub(super) check: RuleCheck,
}

/// The way a rule works.
#[derive(Clone, Copy, Debug)]
pub(super) enum RuleCheck {
    /// Examines one object that differs. Each text is one finding.
    InChange(fn(&Pair<'_>) -> Vec<String>),
    /// Examines all objects of one side. Findings that also exist in the base are ignored.
    InState(fn(&SideObjects<'_>) -> Vec<RuleFinding>),
    /// Examines the changed settings of one environment.
    OfSettings(fn(&SettingsChange) -> Option<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFinding {
    pub(crate) object: ObjectKey,
    pub(crate) detail: String,
}

/// All objects of one side of an environment.
pub(super) struct SideObjects<'a> {
    pub(super) objects: Vec<(&'a ObjectKey, &'a Value)>,
}

impl<'a> SideObjects<'a> {
    pub(super) fn of_kind(
        &self,
        group: &str,
        kind: &str,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Value)> {
        let objects = self.objects.iter().copied();
        objects.filter(move |(key, _)| key.group == group && key.kind == kind)
    }
}

impl Rule {
    /// Returns the findings in one environment.
    pub(super) fn apply(&self, pairs: &[Pair<'_>]) -> Vec<RuleFinding> {
        match self.check {
            RuleCheck::InChange(find) => in_changes(find, pairs),
            RuleCheck::OfSettings(_) => Vec::new(),
            RuleCheck::InState(find) => {
                let before = find(&side(pairs, |pair| pair.before));
                let is_new =
                    |finding: &RuleFinding| before.iter().all(|known| known.object != finding.object);
                let mut found = find(&side(pairs, |pair| pair.after));
                found.retain(is_new);
                found
            }
        }
    }
}

impl Rule {
    /// Returns the finding in the settings of one environment.
    pub(super) fn of_settings(&self, change: &SettingsChange) -> Option<String> {
        match self.check {
            RuleCheck::OfSettings(find) => find(change),
            RuleCheck::InChange(_) | RuleCheck::InState(_) => None,
        }
    }
}

fn in_changes(find: fn(&Pair<'_>) -> Vec<String>, pairs: &[Pair<'_>]) -> Vec<RuleFinding> {
    let changed = pairs.iter().filter(|pair| pair.is_changed);
    let found = changed.flat_map(|pair| {
        let details = find(pair).into_iter();
        details.map(|detail| RuleFinding {
            object: pair.key.clone(),
            detail,
        })
    });
    found.collect()
}

fn side<'a>(pairs: &'a [Pair<'a>], of: fn(&Pair<'a>) -> Option<&'a Value>) -> SideObjects<'a> {
    let objects = pairs
        .iter()
        .filter_map(|pair| of(pair).map(|value| (&pair.key, value)));
    SideObjects {
        objects: objects.collect(),
    }
}

/// Lists up to three names and the number of the others: "`a`, `b`, `c` and 4 more".
pub(super) fn list_few(names: &[String]) -> String {
    const SHOWN_MAX: usize = 3;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN_MAX)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.len().saturating_sub(SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns a field by its path: `field(deployment, "spec.replicas")`. `null` counts as missing.
pub(super) fn field<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path.split('.').try_fold(object, |value, name| value.get(name));
    found.filter(|value| !value.is_null())
}

/// Returns the items of a list by its path. Empty without a list.
pub(super) fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    field(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Returns a text by its path. Empty without a text.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    field(object, path).and_then(Value::as_str).unwrap_or_default()
}
