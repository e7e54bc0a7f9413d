//! Names of clusters, and the pairs of names that may mean the same cluster. Each name is compiled as a pattern
//! once, even if many environments use it.

use super::destination::Cluster;
use regex::RegexBuilder;
use std::collections::HashMap;

/// Memory limit of the compiled regular expression for a cluster, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 18;
/// Maximum number of cluster names that are compared with each other.
const NAMES_MAX: usize = 1_000;
/// Maximum length of a name that is compared, in bytes. A longer name may mean any cluster.
const NAME_BYTES_MAX: usize = 1 << 10;

/// The relation of two destinations by their clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClusterRelation {
    /// The two clusters are or may be the same.
    Same,
    /// At least one of the two names no cluster. The person who applies it chooses one.
    Unset,
    /// The two clusters are different.
    Other,
}

/// The reason why names were not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCompared {
    /// There are too many names.
    TooMany,
    /// The comparison was stopped.
    Stopped,
}

/// The names of clusters, and which of them may mean the same cluster.
#[derive(Debug, Default)]
pub(super) struct ClusterNames {
    indices: HashMap<String, usize>,
    /// The result of each comparison of two names.
    may_match: Vec<bool>,
}

impl ClusterNames {
    /// Compares the names of these clusters. The clusters must be distinct.
    pub(super) fn compare<'a>(
        clusters: impl Iterator<Item = &'a Cluster>,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Self, NotCompared> {
        let mut names = Vec::new();
        for name in clusters.flat_map(Cluster::names) {
            names.push(name);
            if names.len() > NAMES_MAX {
                return Err(NotCompared::TooMany);
            }
        }
        names.sort_unstable();
        names.dedup();
        Ok(Self {
            may_match: compare_all(&names, stopped).ok_or(NotCompared::Stopped)?,
            indices: names.iter().map(|name| (*name).to_owned()).zip(0..).collect(),
        })
    }

    /// Returns the relation of two clusters.
    pub(super) fn relation(&self, one: &Cluster, other: &Cluster) -> ClusterRelation {
        if one.is_unset() || other.is_unset() {
            return ClusterRelation::Unset;
        }
        let meet = |one: &[String], other: &[String]| {
            one.iter()
                .any(|one| other.iter().any(|other| self.may_be_one(one, other)))
        };
        // A server and a context may be the same cluster. Only a kubeconfig with that context can tell.
        let named_differently =
            |one: &Cluster, other: &Cluster| !one.servers.is_empty() && !other.contexts.is_empty();
        match meet(&one.servers, &other.servers)
            || meet(&one.contexts, &other.contexts)
            || named_differently(one, other)
            || named_differently(other, one)
        {
            true => ClusterRelation::Same,
            false => ClusterRelation::Other,
        }
    }

    /// True if two names may mean the same cluster. Names that were not compared may.
    fn may_be_one(&self, one: &str, other: &str) -> bool {
        let place = self.indices.get(one).zip(self.indices.get(other));
        let found = place.and_then(|(one, other)| self.may_match.get(one * self.indices.len() + other));
        found.copied().unwrap_or(true)
    }
}

/// Compares each name with each other name. Returns `None` if the comparison was stopped. Tanka reads names as
/// regular expressions, so two names may mean the same cluster if one of them matches the other.
fn compare_all(names: &[&str], stopped: &dyn Fn() -> bool) -> Option<Vec<bool>> {
    let count = names.len();
    let normal: Vec<String> = names.iter().map(|name| normalize(name)).collect();
    let is_pattern: Vec<bool> = names.iter().map(|name| is_pattern(name)).collect();
    let mut alike = vec![false; count * count];
    for (one, name) in names.iter().enumerate() {
        let pattern = RegexBuilder::new(name)
            .case_insensitive(true)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .ok()
            .filter(|_| name.len() <= NAME_BYTES_MAX);
        for (other, text) in names.iter().enumerate() {
            if other % 64 == 0 && stopped() {
                return None;
            }
            let may_mean = normal[one] == normal[other]
                || (is_pattern[one] && is_pattern[other])
                || pattern.as_ref().is_none_or(|pattern| {
                    text.len() <= NAME_BYTES_MAX
                        && (pattern.is_match(text) || pattern.is_match(&normal[other]))
                });
            if may_mean {
                alike[one * count + other] = true;
                alike[other * count + one] = true;
            }
        }
    }
    Some(alike)
}

fn is_pattern(name: &str) -> bool {
    name.contains(['*', '+', '?', '(', ')', '[', ']', '{', '}', '|', '^', '$', '\\'])
}

fn normalize(cluster: &str) -> String {
    let cluster = cluster.to_lowercase();
    let cluster = cluster.trim_end_matches('/');
    let usual = cluster
        .strip_prefix("https://")
        .and_then(|host| host.strip_suffix(":443").map(|host| format!("https://{host}")))
        .or_else(|| {
            let host = cluster.strip_prefix("http://")?;
            host.strip_suffix(":80").map(|host| format!("http://{host}"))
        });
    usual.unwrap_or_else(|| cluster.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Cluster, ClusterNames, ClusterRelation, NAMES_MAX, NotCompared};
    use std::cell::Cell;

    fn server(name: &str) -> Cluster {
        Cluster {
            servers: vec![name.to_owned()],
            contexts: Vec::new(),
        }
    }

    #[test]
    fn a_name_that_is_too_long_may_mean_any_cluster() {
        let clusters = [
            server(&"x".repeat(2_000)),
            server("https://prod"),
            server("https://dev"),
        ];
        let names = ClusterNames::compare(clusters.iter(), &|| false).unwrap();
        assert_eq!(names.relation(&clusters[0], &clusters[1]), ClusterRelation::Same);
        assert_eq!(names.relation(&clusters[1], &clusters[0]), ClusterRelation::Same);
        assert_eq!(names.relation(&clusters[1], &clusters[2]), ClusterRelation::Other);
    }

    #[test]
    fn comparing_very_many_names_is_refused_and_can_be_stopped() {
        let clusters: Vec<Cluster> = (0..=NAMES_MAX)
            .map(|number| server(&number.to_string()))
            .collect();
        let refused = ClusterNames::compare(clusters.iter(), &|| false).unwrap_err();
        assert_eq!(refused, NotCompared::TooMany);
        let looks = Cell::new(0);
        let stopped = || {
            looks.set(looks.get() + 1);
            looks.get() > 3
        };
        let stopped = ClusterNames::compare(clusters[..200].iter(), &stopped).unwrap_err();
        assert_eq!((stopped, looks.get()), (NotCompared::Stopped, 4));
    }
}
