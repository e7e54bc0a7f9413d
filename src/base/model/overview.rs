//! The overview of a change: its effects on environments, short enough for the first screen of a phone.

use serde::{Deserialize, Serialize};

/// The effects of a change on environments, in the order in which they are shown. Drydock counts all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangeOverview {
    /// The environments that change, in a few words: `dev`, or `37 environments`; empty if none does.
    pub scope: String,
    /// Lines that come before all others: changed settings, and environments and files that were not requested.
    pub warnings: Vec<String>,
    /// The numbers of environments and objects that change, in one line; empty without a comparison.
    pub headline: String,
    /// The first changed objects.
    pub objects: Vec<ObjectOverview>,
    /// The number of further objects in words, such as `and 7 more below`; empty if there are none.
    pub rest: String,
    /// The most severe risks, one line each, and a line with the number of others.
    pub risks: Vec<String>,
    /// The number of environments that are proven not to change.
    pub unchanged: usize,
}

/// A changed object, or one that differs between groups of environments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectOverview {
    /// The environments and the object: `dev · Deployment web`.
    pub title: String,
    /// The changed fields: short name, and both values.
    pub fields: Vec<(String, String)>,
}

impl ChangeOverview {
    /// Applies a function to every text.
    #[must_use]
    pub fn map(mut self, text: impl Fn(&str) -> String) -> Self {
        let objects = self.objects.iter_mut();
        let of_objects = objects.flat_map(|object| {
            let fields = object.fields.iter_mut();
            let fields = fields.flat_map(|(name, values)| [name, values]);
            std::iter::once(&mut object.title).chain(fields)
        });
        let lines = self.warnings.iter_mut().chain(&mut self.risks);
        let single = [&mut self.scope, &mut self.headline, &mut self.rest];
        for part in single.into_iter().chain(lines).chain(of_objects) {
            *part = text(part);
        }
        self
    }
}
