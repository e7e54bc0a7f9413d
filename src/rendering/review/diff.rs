//! The differences in one environment by object.

use super::fields::{self, FieldChange};
use super::key::ObjectKey;
use super::pair::Pair;
use super::patch;
use serde::Serialize;
use serde_json::Value;

/// A function that formats an object as a YAML document.
pub type WriteYaml<'a> = &'a (dyn Fn(&Value) -> String + Sync);

/// The kind of change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectChangeKind {
    /// The object exists on both sides and differs.
    Changed,
    /// The object is new.
    Added,
    /// The object was removed.
    Removed,
}

impl ObjectChangeKind {
    /// Returns the name, such as `changed`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Changed => "changed",
            Self::Added => "added",
            Self::Removed => "removed",
        }
    }
}

/// An object that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectChange {
    /// The object.
    pub object: ObjectKey,
    /// The kind of change.
    pub happens: ObjectChangeKind,
    /// The fields that differ. Empty unless the object exists on both sides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
    /// The YAML difference of both sides: hunks with three lines of context.
    pub patch: String,
    /// The number of added YAML lines.
    pub lines_added: u64,
    /// The number of removed YAML lines.
    pub lines_removed: u64,
    /// The object itself if it exists on one side only. It is dropped after the classes are built.
    #[serde(skip)]
    pub(super) full_object: Option<Value>,
}

impl ObjectChange {
    /// Drops the object itself, which is not part of the report.
    pub(super) fn drop_full_object(&mut self) {
        self.full_object = None;
    }
}

/// Returns the objects that differ, sorted by key.
pub(super) fn changes(pairs: &[Pair<'_>], yaml: WriteYaml<'_>) -> Vec<ObjectChange> {
    let changed = pairs.iter().filter(|pair| pair.is_changed);
    changed.map(|pair| change(pair, yaml)).collect()
}

fn change(pair: &Pair<'_>, yaml: WriteYaml<'_>) -> ObjectChange {
    let (happens, fields, whole) = match (pair.before, pair.after) {
        (Some(before), Some(after)) => (ObjectChangeKind::Changed, fields::changes(before, after), None),
        (None, after) => (ObjectChangeKind::Added, Vec::new(), after),
        (before, None) => (ObjectChangeKind::Removed, Vec::new(), before),
    };
    let written = |side: Option<&Value>| side.map(yaml).unwrap_or_default();
    let patch = patch::diff_texts(&written(pair.before), &written(pair.after));
    ObjectChange {
        object: pair.key.clone(),
        happens,
        fields,
        patch: patch.text,
        lines_added: patch.added,
        lines_removed: patch.removed,
        full_object: whole.cloned(),
    }
}
