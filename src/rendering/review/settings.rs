//! Changes of environment settings: the destinations of environments, and the defaults for all their objects. The
//! rendered objects may not show such a change.

use super::visible;
use crate::base::model::{cut_to, quoted};
use serde::Serialize;
use serde_json::Value;

/// The settings that determine the destination of an environment.
const PLACE: [&str; 3] = ["spec.apiServer", "spec.contextNames", "spec.namespace"];
/// Maximum number of settings in one line. Further ones are only counted.
const SETTINGS_MAX: usize = 6;
/// Maximum number of environments. Further ones are only counted.
const ENVIRONMENTS_MAX: usize = 8;
const LINE_CHARS_MAX: usize = 240;

/// An environment whose settings differ or may differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsChange {
    /// The name of the environment.
    pub environment: String,
    /// The kind of change.
    #[serde(flatten)]
    pub kind: SettingsChangeKind,
    /// The directories of the newly reached environments at the destination, sorted. Environments that were reached
    /// before are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<String>,
}

/// The change of the settings of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "happens", rename_all = "snake_case")]
pub enum SettingsChangeKind {
    /// The settings differ.
    Changed {
        /// The settings, by path.
        settings: Vec<SettingChange>,
    },
    /// The environment is new.
    Added {
        /// The settings, by path.
        settings: Vec<SettingChange>,
    },
    /// The environment was removed.
    Removed {
        /// The settings, by path.
        settings: Vec<SettingChange>,
    },
    /// The settings may differ.
    NotCompared {
        /// The redacted reason, for people.
        why: String,
    },
}

/// A redacted setting on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingChange {
    /// The path, such as `spec.namespace`.
    pub path: String,
    /// The value in the base; `None` if it is not set.
    pub before: Option<Value>,
    /// The value in the workspace; `None` if it is not set.
    pub after: Option<Value>,
}

impl SettingChange {
    fn is_of_place(&self) -> bool {
        PLACE.contains(&self.path.as_str())
    }

    fn text(&self) -> String {
        let step = visible::format_transition(self.before.as_ref(), self.after.as_ref());
        format!("{} {step}", quoted(&self.path))
    }
}

impl SettingsChange {
    /// Describes the move of an environment that has a new destination, is new or is removed. Returns `None`
    /// without a move.
    pub(super) fn describe_move(&self) -> Option<String> {
        let moved = match &self.kind {
            SettingsChangeKind::Changed { settings } => {
                let of_place = settings.iter().filter(|setting| setting.is_of_place());
                listed(of_place.collect()).filter(|text| !text.is_empty())?
            }
            SettingsChangeKind::Added { settings } if !self.reaches.is_empty() => {
                let of_place = settings.iter().filter(|setting| setting.is_of_place());
                format!("it is new: {}", listed(of_place.collect())?)
            }
            SettingsChangeKind::Removed { .. } => "its settings are removed".to_owned(),
            SettingsChangeKind::Added { .. } | SettingsChangeKind::NotCompared { .. } => return None,
        };
        Some(match self.reaches.as_slice() {
            [] => moved,
            // The list was too long.
            [all] if all == "**" => format!("{moved}; it may share the destination of any environment"),
            reached => format!(
                "{moved}; it may share the destination of {}",
                super::summary::names(reached.iter().map(String::as_str))
            ),
        })
    }

    /// Describes the differences other than a move, or returns `None` if there are none.
    pub(super) fn describe_others(&self) -> Option<String> {
        match &self.kind {
            SettingsChangeKind::Changed { settings } => {
                let others = settings.iter().filter(|setting| !setting.is_of_place());
                listed(others.collect()).filter(|text| !text.is_empty())
            }
            SettingsChangeKind::Added { settings } if self.reaches.is_empty() => {
                Some(format!("it is new: {}", listed(settings.iter().collect())?))
            }
            SettingsChangeKind::Added { .. }
            | SettingsChangeKind::Removed { .. }
            | SettingsChangeKind::NotCompared { .. } => None,
        }
    }

    /// Returns the reason why the destination of the environment is unknown.
    pub(super) fn not_compared(&self) -> Option<String> {
        match &self.kind {
            SettingsChangeKind::NotCompared { why } => Some(visible::line(why)),
            _ => None,
        }
    }

    fn line(&self) -> String {
        let name = quoted(&self.environment);
        let text = match (self.not_compared(), self.describe_move(), self.describe_others()) {
            (Some(why), ..) => format!("⚠ Not compared: the destination of {name} is unknown: {why}"),
            (None, Some(moves), None) => format!("⚠ {name} moves: {moves}"),
            (None, Some(moves), Some(others)) => format!("⚠ {name} moves: {moves}; also {others}"),
            (None, None, others) => format!("⚠ {name} has changed settings: {}", others.unwrap_or_default()),
        };
        cut_to(&text, LINE_CHARS_MAX).into_owned()
    }
}

fn listed(settings: Vec<&SettingChange>) -> Option<String> {
    let shown: Vec<String> = settings
        .iter()
        .take(SETTINGS_MAX)
        .map(|setting| setting.text())
        .collect();
    Some(match settings.len().saturating_sub(SETTINGS_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    })
}

/// Formats one line for each change, with moves first.
pub(super) fn lines(changes: &[SettingsChange]) -> Vec<String> {
    let mut sorted: Vec<&SettingsChange> = changes.iter().collect();
    sorted.sort_by_key(|change| change.describe_move().is_none() && change.not_compared().is_none());
    let mut lines: Vec<String> = sorted
        .iter()
        .take(ENVIRONMENTS_MAX)
        .map(|change| change.line())
        .collect();
    match sorted.len().saturating_sub(ENVIRONMENTS_MAX) {
        0 => {}
        1 => lines.push("⚠ The settings of 1 more environment differ.".to_owned()),
        more => lines.push(format!("⚠ The settings of {more} more environments differ.")),
    }
    lines
}
