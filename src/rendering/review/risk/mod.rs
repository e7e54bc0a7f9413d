//! The risks of a change: rules with fixed ids that examine the objects of both sides. Each rule is one entry in
//! the list of its family's file, with test cases beside it. [`documentation`] is generated from the rules.

mod access;
mod deletion;
mod hidden;
mod host;
mod identity;
mod image;
mod immutable;
mod network;
mod placement;
mod pod;
mod policy;
mod quantity;
mod rule;
mod scaling;
mod secret;
mod selector;
mod workload;

pub(super) use rule::RuleFinding;
pub use rule::{RiskSeverity, Rule};

use super::pair::Pair;
use super::settings::SettingsChange;

/// The families with their rules, by id.
const FAMILIES: [(&str, &[Rule]); 11] = [
    ("Running pods", &workload::RULES),
    ("Fields that cannot change", &immutable::RULES),
    ("Removals", &deletion::RULES),
    ("Access", &access::RULES),
    ("The node", &host::RULES),
    ("Reachability", &network::RULES),
    ("Network policies", &policy::RULES),
    ("Images", &image::RULES),
    ("Scaling", &scaling::RULES),
    (
        "Secrets and names",
        &[
            secret::RULES[0],
            secret::RULES[1],
            hidden::RULES[0],
            identity::RULES[0],
        ],
    ),
    ("Destinations of environments", &placement::RULES),
];

/// Returns every rule, by id.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    FAMILIES.iter().flat_map(|(_, rules)| rules.iter())
}

/// Returns the findings of all rules in one environment, in the order of the rules.
pub(super) fn findings(pairs: &[Pair<'_>]) -> Vec<(&'static Rule, RuleFinding)> {
    let found = rules().flat_map(|rule| rule.apply(pairs).into_iter().map(move |finding| (rule, finding)));
    found.collect()
}

/// Returns the findings of all rules in the settings of one environment, in the order of the rules.
pub(super) fn settings_findings(change: &SettingsChange) -> Vec<(&'static Rule, String)> {
    let found = rules().filter_map(|rule| Some((rule, rule.of_settings(change)?)));
    found.collect()
}

/// Returns the table of all rules as Markdown, for `docs/risks.md`.
pub fn documentation() -> String {
    let mut out = String::from(
        "# Risks\n\nAfter reading this you know what each risk code in an answer means and what it is based on.\n\n\
         Drydock searches the rendered objects of a change for these risks. The rules are deterministic: the same \
         objects give the same risks, and a model can explain them but neither add nor remove one. The meaning of \
         an id does not change. This file is generated from the rules.\n",
    );
    for (family, rules) in FAMILIES {
        out.push_str(&format!(
            "\n## {family}\n\n| id | risk | severity | what it means |\n|---|---|---|---|\n"
        ));
        for rule in rules {
            let (id, title, severity) = (rule.id, rule.title, rule.severity.name());
            out.push_str(&format!(
                "| {id} | {title} | {severity} | {} |\n",
                rule.explanation
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests;
