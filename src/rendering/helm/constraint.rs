//! Version constraints for charts: `^1.2`, `>=1.0.0 <2.0.0`, `1.2 - 1.4 || 3.x`. They are parsed and evaluated as
//! in helm, including its edge cases. The test table was recorded from the library that helm uses.

use super::version::ChartVersion;
use regex::{Captures, Regex};
use std::cmp::Ordering;
use std::sync::LazyLock;

const CONSTRAINT_BYTES_MAX: usize = 512;
/// Maximum number of alternatives in one constraint.
const ALTERNATIVES_MAX: usize = 32;

/// A number in a version, or a wildcard.
const NUMBER: &str = r"[0-9xX*|]+";
/// The part of a version after the numbers: prerelease and build metadata.
const REST: &str = r"(?:-[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*)?(?:\+[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*)?";
const OPERATOR: &str = r"=>|>=|=<|<=|~>|!=|=|>|<|~|\^|";
/// A whitespace character as defined by Go.
const BLANK: &str = r"[\t\n\x0c\r ]";

/// A range such as `1.2 - 1.4`.
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let version = format!(r"v?{NUMBER}(?:\.{NUMBER})?(?:\.{NUMBER})?{REST}");
    Regex::new(&format!(
        r"{BLANK}*({version}){BLANK}+-{BLANK}+({version}){BLANK}*"
    ))
    .ok()
});

/// A bound and the separator before the next one.
static BOUND: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(&format!(
        r"^{BLANK}*({OPERATOR}){BLANK}*v?({NUMBER})(?:\.({NUMBER}))?(?:\.({NUMBER}))?({REST})({BLANK}*,{BLANK}*|{BLANK}+|$)"
    ))
    .ok()
});

/// A constraint: a list of alternatives, each of which is a list of bounds.
#[derive(Clone, Debug)]
pub(super) struct Constraint {
    alternatives: Vec<Vec<Bound>>,
}

#[derive(Clone, Debug)]
struct Bound {
    operator: Operator,
    version: ChartVersion,
    omitted_from: OmittedFrom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The first omitted number of a bound. That number and those after it may have any value, and are 0 in the bound's
/// version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OmittedFrom {
    Nothing,
    Patch,
    Minor,
    Major,
}

impl Constraint {
    /// Parses a constraint. Returns `None` if helm would refuse it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > CONSTRAINT_BYTES_MAX {
            return None;
        }
        let from_to = |range: &Captures<'_>| format!(">= {}, <= {} ", &range[1], &range[2]);
        let text = RANGE.as_ref()?.replace_all(text, from_to);
        let alternatives: Option<Vec<_>> = text.split("||").map(bounds).collect();
        alternatives
            .filter(|alternatives| alternatives.len() <= ALTERNATIVES_MAX)
            .map(|alternatives| Self { alternatives })
    }

    /// True if a version satisfies the constraint. A prerelease does so only if the constraint names a prerelease.
    pub(super) fn matches(&self, version: &ChartVersion) -> bool {
        self.alternatives.iter().any(|bounds| {
            let prereleases = bounds.iter().any(|bound| bound.version.is_prerelease());
            (prereleases || !version.is_prerelease()) && bounds.iter().all(|bound| bound.holds(version))
        })
    }
}

/// Parses the bounds of one alternative. There must be at least one.
fn bounds(text: &str) -> Option<Vec<Bound>> {
    let mut rest = text;
    let mut bounds = Vec::new();
    loop {
        let found = BOUND.as_ref()?.captures(rest)?;
        bounds.push(Bound::from_captures(&found)?);
        let separator = found.get(6)?;
        rest = rest.get(separator.end()..)?;
        match (rest.is_empty(), separator.as_str().contains(',')) {
            (true, false) => return Some(bounds),
            // A bound must follow a comma.
            (true, true) => return None,
            (false, _) => {}
        }
    }
}

impl Bound {
    fn from_captures(found: &Captures<'_>) -> Option<Self> {
        let number = |group: usize| {
            let number = found.get(group).map(|number| number.as_str());
            number.filter(|number| !matches!(*number, "x" | "X" | "*"))
        };
        let (numbers, left_out) = match (number(2), number(3), number(4)) {
            (None, ..) => ("0.0.0".to_owned(), OmittedFrom::Major),
            (Some(major), None, _) => (format!("{major}.0.0"), OmittedFrom::Minor),
            (Some(major), Some(minor), None) => (format!("{major}.{minor}.0"), OmittedFrom::Patch),
            (Some(major), Some(minor), Some(patch)) => {
                (format!("{major}.{minor}.{patch}"), OmittedFrom::Nothing)
            }
        };
        Some(Self {
            operator: match &found[1] {
                "" | "=" => Operator::Equal,
                "!=" => Operator::NotEqual,
                ">" => Operator::Greater,
                "<" => Operator::Less,
                ">=" | "=>" => Operator::GreaterOrEqual,
                "<=" | "=<" => Operator::LessOrEqual,
                "~" | "~>" => Operator::Tilde,
                _ => Operator::Caret,
            },
            version: ChartVersion::parse(&format!("{numbers}{}", &found[5]))?,
            omitted_from: left_out,
        })
    }

    fn holds(&self, version: &ChartVersion) -> bool {
        let bound = &self.version;
        let order = version.precedence(bound);
        match self.operator {
            Operator::Equal if self.omitted_from == OmittedFrom::Nothing => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => order != Ordering::Less && self.matches_tilde(version),
            Operator::NotEqual => self.is_unequal(version),
            Operator::Greater => match self.omitted_from {
                OmittedFrom::Minor => version.major() > bound.major(),
                OmittedFrom::Patch => (version.major(), version.minor()) > (bound.major(), bound.minor()),
                OmittedFrom::Nothing | OmittedFrom::Major => order == Ordering::Greater,
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::LessOrEqual => match self.omitted_from {
                OmittedFrom::Minor => version.major() <= bound.major(),
                OmittedFrom::Patch | OmittedFrom::Major => {
                    (version.major(), version.minor()) <= (bound.major(), bound.minor())
                }
                OmittedFrom::Nothing => order != Ordering::Greater,
            },
            Operator::Caret => order != Ordering::Less && self.matches_caret(version),
        }
    }

    /// True if a version satisfies `~`: the numbers before the last stated one are equal. `~0.0.0` allows every
    /// version.
    fn matches_tilde(&self, version: &ChartVersion) -> bool {
        let bound = &self.version;
        let is_zero = (bound.major(), bound.minor(), bound.patch()) == (0, 0, 0);
        match self.omitted_from {
            OmittedFrom::Nothing | OmittedFrom::Major if is_zero => true,
            OmittedFrom::Minor => version.major() == bound.major(),
            OmittedFrom::Nothing | OmittedFrom::Patch | OmittedFrom::Major => {
                (version.major(), version.minor()) == (bound.major(), bound.minor())
            }
        }
    }

    /// True if a version satisfies `^`: the first nonzero number and those before it are equal.
    fn matches_caret(&self, version: &ChartVersion) -> bool {
        let bound = &self.version;
        if bound.major() > 0 || self.omitted_from == OmittedFrom::Minor {
            return version.major() == bound.major();
        }
        if bound.minor() > 0 || self.omitted_from == OmittedFrom::Patch {
            return (version.major(), version.minor()) == (0, bound.minor());
        }
        (version.major(), version.minor(), version.patch()) == (0, 0, bound.patch())
    }

    fn is_unequal(&self, version: &ChartVersion) -> bool {
        let bound = &self.version;
        match self.omitted_from {
            OmittedFrom::Minor => version.major() != bound.major(),
            OmittedFrom::Patch if (version.major(), version.minor()) == (bound.major(), bound.minor()) => {
                let prerelease = version.is_prerelease() || bound.is_prerelease();
                prerelease && version.prerelease_precedence(bound) != Ordering::Equal
            }
            OmittedFrom::Patch => true,
            OmittedFrom::Nothing | OmittedFrom::Major => version.precedence(bound) != Ordering::Equal,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Constraint;
    use crate::rendering::helm::version::ChartVersion;
    use proptest::prelude::*;
    use serde::Deserialize;

    /// Recorded results of the version library that helm uses.
    #[derive(Deserialize)]
    struct RecordedAnswers {
        versions: Vec<RecordedVersion>,
        /// The comparison of each valid version with each other one.
        order: Vec<String>,
        constraints: Vec<RecordedConstraint>,
    }

    #[derive(Deserialize)]
    struct RecordedVersion {
        text: String,
        /// The normalized version. Empty for an invalid version.
        normal: String,
    }

    #[derive(Deserialize)]
    struct RecordedConstraint {
        constraint: String,
        /// The result for each valid version. Empty for an invalid constraint.
        fits: String,
    }

    fn recorded() -> (RecordedAnswers, Vec<ChartVersion>) {
        let recorded: RecordedAnswers = serde_json::from_str(include_str!("testdata/semver.json")).unwrap();
        let good = recorded
            .versions
            .iter()
            .filter(|version| !version.normal.is_empty());
        let good = good
            .map(|version| ChartVersion::parse(&version.text).unwrap())
            .collect();
        (recorded, good)
    }

    #[test]
    fn versions_are_read_and_ordered_as_helm_does_it() {
        let (recorded, good) = recorded();
        for version in recorded
            .versions
            .iter()
            .filter(|version| version.normal.is_empty())
        {
            assert!(ChartVersion::parse(&version.text).is_none(), "{:?}", version.text);
        }
        for (version, order) in good.iter().zip(&recorded.order) {
            let ours: String = good
                .iter()
                .map(|other| match version.precedence(other) {
                    std::cmp::Ordering::Less => '<',
                    std::cmp::Ordering::Equal => '=',
                    std::cmp::Ordering::Greater => '>',
                })
                .collect();
            assert_eq!(ours, *order, "{}", version.written());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

        #[test]
        fn no_constraint_and_no_version_is_a_panic(text in "[0-9xX*v.+^~<>=!|, a-c\\-\\n]{0,40}", other in any::<String>()) {
            for text in [text, other] {
                let fits = Constraint::parse(&text).zip(ChartVersion::parse("1.2.3-a"));
                let _ = fits.map(|(constraint, version)| constraint.matches(&version));
                let _ = ChartVersion::parse(&text);
            }
        }
    }

    #[test]
    fn what_fits_is_what_helm_takes() {
        let (recorded, good) = recorded();
        let mut compared = 0;
        for RecordedConstraint { constraint, fits } in &recorded.constraints {
            let Some(ours) = Constraint::parse(constraint) else {
                assert_eq!(fits, "", "{constraint:?} is one");
                continue;
            };
            assert_ne!(fits, "", "{constraint:?} is none");
            for (version, expected) in good.iter().zip(fits.chars()) {
                let version_text = version.written();
                assert_eq!(
                    ours.matches(version),
                    expected == '1',
                    "{constraint:?} {version_text}"
                );
                compared += 1;
            }
        }
        assert!(compared > 9_000, "{compared}");
    }
}
