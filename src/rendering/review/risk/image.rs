//! Rules about images that can change without a change in the repository.

use super::pod;
use super::rule::{RiskSeverity, Rule, RuleCheck, text};
use crate::base::model::is_hex;
use crate::rendering::review::pair::Pair;

pub(super) const RULES: [Rule; 3] = [
    Rule {
        id: "DD060",
        title: "Image without a version",
        severity: RiskSeverity::Medium,
        explanation: "A new image has the tag `latest` or none. What runs depends on when a node last pulled it, and \
                      there is no version to go back to.",
        check: RuleCheck::InChange(unversioned),
    },
    Rule {
        id: "DD061",
        title: "Image tag that moves",
        severity: RiskSeverity::Low,
        explanation: "A new image has a tag that is usually moved, such as `main`, `v1` or `1.2`, and no digest. \
                      Full versions and commits count as fixed.",
        check: RuleCheck::InChange(movable),
    },
    Rule {
        id: "DD062",
        title: "Image digest dropped",
        severity: RiskSeverity::Medium,
        explanation: "An image was named by its digest and is now named by a tag: what runs is not fixed any more.",
        check: RuleCheck::InChange(unpinned),
    },
];

/// The parts of `registry:5000/team/app:1.2@sha256:...` that determine the pulled image.
#[derive(Clone, Copy)]
struct Image<'a> {
    whole: &'a str,
    tag: Option<&'a str>,
    has_digest: bool,
}

impl<'a> Image<'a> {
    fn parse(whole: &'a str) -> Self {
        let (name, digest) = whole
            .split_once('@')
            .map_or((whole, None), |(name, digest)| (name, Some(digest)));
        // A colon before the last slash precedes the port of the registry.
        let last = name.rsplit('/').next().unwrap_or_default();
        Self {
            whole,
            tag: last.split_once(':').map(|(_, tag)| tag),
            has_digest: digest.is_some(),
        }
    }

    fn is_unversioned(&self) -> bool {
        !self.has_digest && matches!(self.tag, None | Some("latest" | ""))
    }

    fn is_movable(&self) -> bool {
        !self.has_digest && !self.is_unversioned() && !self.tag.is_some_and(is_fixed)
    }
}

/// True if the tag contains a full version, a date or a commit.
fn is_fixed(tag: &str) -> bool {
    let pieces = || tag.split(|c: char| !c.is_ascii_alphanumeric());
    let numbers = pieces().map(|piece| piece.trim_start_matches(['v', 'r']));
    let mut run = 0;
    for number in numbers {
        run = match number.starts_with(|c: char| c.is_ascii_digit()) {
            true => run + 1,
            false => 0,
        };
        if run == 3 {
            return true;
        }
    }
    let is_commit =
        |piece: &str| piece.len() >= 7 && is_hex(piece) && piece.chars().any(|c| c.is_ascii_digit());
    pieces().any(|piece| is_commit(piece.trim_start_matches('g')))
}

fn unversioned(pair: &Pair<'_>) -> Vec<String> {
    changed(pair, |_, now| now.is_unversioned())
}

fn movable(pair: &Pair<'_>) -> Vec<String> {
    changed(pair, |_, now| now.is_movable())
}

fn unpinned(pair: &Pair<'_>) -> Vec<String> {
    changed(pair, |before, now| {
        before.is_some_and(|before| before.has_digest) && !now.has_digest
    })
}

fn changed(pair: &Pair<'_>, is_risk: fn(Option<Image<'_>>, &Image<'_>) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (before, after) in pod::matched(pair) {
        let before = before.map(|before| Image::parse(text(before.value, "image")));
        let now = Image::parse(text(after.value, "image"));
        let is_same = before.is_some_and(|before| before.whole == now.whole);
        if !is_same && !now.whole.is_empty() && is_risk(before, &now) {
            found.push(format!("{after} uses `{}`", now.whole));
        }
    }
    found
}

#[cfg(test)]
pub(super) fn cases() -> Vec<super::tests::RuleCase> {
    use super::tests::{RuleCase, workload};
    use serde_json::json;
    let runs = |image: &str| {
        let containers = json!([{ "name": "web", "image": image }]);
        [workload(
            json!({ "template": { "spec": { "containers": containers } } }),
        )]
    };
    let digest = format!("web@sha256:{}", "0".repeat(64));
    let steps = [
        ("DD060", "web:1.0.0", "web:latest", true),
        ("DD060", "web:1.0.0", "host:5000/web", true),
        ("DD060", "web:1.0.0", "web:1.0.1", false),
        ("DD060", "web:1.0.0", digest.as_str(), false),
        ("DD061", "web:1.0.0", "web:main", true),
        ("DD061", "web:1.0.0", "web:1.2", true),
        ("DD061", "web:1.0.0", "web:v1.0.1-rc1", false),
        ("DD061", "web:1.0.0", "web:main-4f2c9ab", false),
        ("DD061", "web:1.0.0", "web:latest", false),
        ("DD062", digest.as_str(), "web:1.0.1", true),
        ("DD062", "web:1.0.0", "web:1.0.1", false),
    ];
    let cases = steps.into_iter().map(|(rule, before, after, is_found)| {
        let detail = format!("container `web` uses `{after}`");
        let details: &[&str] = if is_found { &[&detail] } else { &[] };
        RuleCase::new(rule, &runs(before), &runs(after), details)
    });
    cases.collect()
}
