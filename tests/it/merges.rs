//! The merge of `drydock pull` beside that of git, with seeded texts: what both merge has the same content.

use crate::support::require::{Component, component};
use drydock::state::workspace::merge::{MergeOutcome, merge};
use std::path::Path;

/// The number of merges that are compared.
const CASES: u64 = 600;

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Returns a text of a few different lines, so that lines repeat.
fn text(numbers: &mut Numbers) -> Vec<&'static str> {
    let lines = ["a", "b", "c", "", "  d", "}", "e: 1", "f: 2"];
    let count = numbers.below(14);
    (0..count).map(|_| lines[numbers.below(lines.len())]).collect()
}

/// Returns a text with a few lines replaced, removed or added.
fn edited(lines: &[&'static str], numbers: &mut Numbers) -> Vec<&'static str> {
    let new = ["x", "y", "a", "}", ""];
    let mut lines = lines.to_vec();
    for _ in 0..numbers.below(4) {
        let at = numbers.below(lines.len() + 1);
        let line = new[numbers.below(new.len())];
        match (numbers.below(3), at < lines.len()) {
            (0, true) => lines[at] = line,
            (1, true) => {
                lines.remove(at);
            }
            _ => lines.insert(at, line),
        }
    }
    lines
}

fn bytes(lines: &[&str], numbers: &mut Numbers) -> Vec<u8> {
    let mut text = lines.join("\n");
    // A few files do not end with a line end.
    if !lines.is_empty() && numbers.below(8) > 0 {
        text.push('\n');
    }
    text.into_bytes()
}

/// Returns the merge of git; `None` for a conflict.
fn merge_of_git(git: &Component, place: &Path, [base, current, changed]: [&[u8]; 3]) -> Option<Vec<u8>> {
    for (name, content) in [("base", base), ("current", current), ("changed", changed)] {
        std::fs::write(place.join(name), content).unwrap();
    }
    let mut command = git.command();
    command
        .args(["merge-file", "-p", "-q", "current", "base", "changed"])
        .current_dir(place)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    let merged = command.output().unwrap();
    // The number of conflicts, up to 127; errors are above.
    let code = merged.status.code().unwrap();
    assert!((0..128).contains(&code), "{merged:?}");
    (code == 0).then_some(merged.stdout)
}

#[test]
fn merges_are_those_of_git() {
    let Some(git) = component("git") else { return };
    let place = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(4_711);
    let (mut seen, mut apart) = ([0_u64; 3], [0_u64; 3]);
    for case in 0..CASES {
        let base = text(&mut numbers);
        let (current, changed) = match case % 8 {
            0 => (text(&mut numbers), text(&mut numbers)),
            _ => (edited(&base, &mut numbers), edited(&base, &mut numbers)),
        };
        let [base, current, changed] = [&base, &current, &changed].map(|lines| bytes(lines, &mut numbers));
        let of_git = |base: &[u8], current: &[u8], changed: &[u8]| {
            merge_of_git(&git, place.path(), [base, current, changed])
        };
        let shown = || {
            let shown = [&base, &current, &changed].map(|text| String::from_utf8_lossy(text).into_owned());
            format!("case {case}: {shown:?}")
        };
        let merged_by_git = of_git(&base, &current, &changed);
        let (kind, is_apart) = match merge(&base, &current, &changed) {
            MergeOutcome::Merged(merged) => {
                if let Some(of_git) = &merged_by_git {
                    assert_eq!(of_git, &merged, "{}", shown());
                }
                (0, merged_by_git.is_none())
            }
            MergeOutcome::Conflict => (1, merged_by_git.is_some()),
            MergeOutcome::Contained => {
                // The change can be taken out and put in again.
                let without = of_git(&changed, &current, &base);
                let again = without.and_then(|without| of_git(&base, &without, &changed));
                (2, again.as_ref() != Some(&current))
            }
            MergeOutcome::Binary => panic!("{}", shown()),
        };
        seen[kind] += 1;
        apart[kind] += u64::from(is_apart);
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    // Where lines repeat, one of both may see a conflict that the other does not.
    assert!(
        apart.iter().all(|count| *count * 25 < CASES),
        "{apart:?} of {seen:?}"
    );
}
