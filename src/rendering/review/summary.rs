//! A report as plain text of limited length. The first and the last lines are always included: the size of the
//! change, the changes that the request does not mention, and the proof for the rest. Between them, risks and
//! changes get as many lines as fit. The others are counted.

use super::asked_for::AskedFor;
use super::classes::{ChangeClass, ClassDifference, Transition};
use super::diff::{ObjectChange, ObjectChangeKind};
use super::proof::{Impact, NotProven, Proof};
use super::report::{EnvironmentReport, Report, Risk};
use super::{settings, visible};
use crate::base::model::{by_number, cut_to, pluralize, quoted};

/// Maximum number of names in one line. Further ones are only counted.
const NAMES_MAX: usize = 5;
/// Maximum number of fields of one object. Further ones are only counted.
const FIELDS_MAX: usize = 8;
const LINE_CHARS_MAX: usize = 240;
/// Number of characters reserved for the line with the number of omitted entries.
const REST_CHARS_MAX: usize = 60;

/// Lines of which some may be omitted.
#[derive(Default)]
struct OptionalLines {
    lines: Vec<SummaryLine>,
}

struct SummaryLine {
    text: String,
    /// The kind of entry that begins with this line, such as an object or a risk.
    begins: Option<&'static str>,
}

pub(super) fn text(report: &Report, chars_max: usize) -> String {
    let head = head(report);
    let tail = tail(report);
    let fixed = length(&head) + length(&tail);
    let room = chars_max.saturating_sub(fixed);
    let risks = risks(&report.risks);
    let changes = changes(report);
    // Risks may take half of the space, and all the space that the changes do not need.
    let for_risks = (room / 2).max(room.saturating_sub(changes.length()));
    let risks = risks.fit(for_risks);
    let changes = changes.fit(room.saturating_sub(length(&risks)));
    let lines = [head, changes, risks, tail].concat();
    cut_to(&lines.join("\n"), chars_max).into_owned()
}

/// Returns the risks, and the environments that no rule could examine.
pub(super) fn risk_text(report: &Report, chars_max: usize) -> String {
    let unproven = unproven(report);
    let room = chars_max.saturating_sub(length(&unproven));
    let lines = [risks(&report.risks).fit(room), unproven].concat();
    cut_to(&lines.join("\n"), chars_max).into_owned()
}

fn length(lines: &[String]) -> usize {
    lines.iter().map(|line| line.chars().count() + 1).sum()
}

impl OptionalLines {
    fn push(&mut self, begins: Option<&'static str>, text: &str) {
        let text = cut_to(text, LINE_CHARS_MAX).into_owned();
        self.lines.push(SummaryLine { text, begins });
    }

    fn length(&self) -> usize {
        self.lines.iter().map(|line| line.text.chars().count() + 1).sum()
    }

    fn fit(self, chars_max: usize) -> Vec<String> {
        if self.length() <= chars_max {
            return self.lines.into_iter().map(|line| line.text).collect();
        }
        let mut room = chars_max.saturating_sub(REST_CHARS_MAX);
        let mut shown = Vec::new();
        let mut lines = self.lines.into_iter().peekable();
        while let Some(line) = lines.next_if(|line| line.text.chars().count() < room) {
            room -= line.text.chars().count() + 1;
            shown.push(line.text);
        }
        shown.push(rest(&lines.collect::<Vec<_>>()));
        shown
    }
}

fn rest(lines: &[SummaryLine]) -> String {
    let mut nouns: Vec<&str> = lines.iter().filter_map(|line| line.begins).collect();
    nouns.sort_unstable();
    nouns.dedup();
    let count = |noun: &str| lines.iter().filter(|line| line.begins == Some(noun)).count();
    let counted: Vec<String> = nouns.into_iter().map(|noun| more(count(noun), noun)).collect();
    match counted.as_slice() {
        [] => format!("… {}, see the file", more(lines.len(), "line")),
        counted => format!("… {}, see the file", counted.join(", ")),
    }
}

fn more(count: usize, noun: &str) -> String {
    format!("{count} more {}", by_number(count, noun, &format!("{noun}s")))
}

/// Formats names as `a`, `b` and 3 more.
pub(super) fn names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown: Vec<String> = names
        .take(NAMES_MAX)
        .map(|name| quoted(&cut_to(name, 60)))
        .collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn head(report: &Report) -> Vec<String> {
    let counts = &report.counts;
    // Settings come first, because the rendered objects may not show them.
    let mut lines = settings::lines(&report.settings);
    if report.environments.is_empty() && !lines.is_empty() {
        return lines;
    }
    lines.push(format!(
        "{} of {} {}: {} changed, {} added, {} removed.",
        counts.affected,
        pluralize(counts.environments, "environment", "environments"),
        by_number(counts.affected, "changes", "change"),
        pluralize(counts.objects_changed, "object", "objects"),
        counts.objects_added,
        counts.objects_removed,
    ));
    if counts.files > 0 {
        let files = pluralize(counts.files, "file", "files");
        let paths = names(report.files.iter().map(|file| file.path.as_str()));
        lines.push(format!(
            "{files}, +{} -{}: {paths}.",
            counts.lines_added, counts.lines_removed
        ));
    }
    let changing = report
        .environments
        .iter()
        .filter(|one| one.is_affected() || one.is_broken());
    let unasked: Vec<&str> = changing
        .filter(|one| one.asked_for == AskedFor::No)
        .map(|one| one.name.as_str())
        .collect();
    if !unasked.is_empty() {
        lines.push(format!(
            "⚠ Not requested: {} {}.",
            by_number(unasked.len(), "environment", "environments"),
            names(unasked.into_iter())
        ));
    }
    let unasked: Vec<&str> = report
        .files
        .iter()
        .filter(|file| file.asked_for == AskedFor::No)
        .map(|file| file.path.as_str())
        .collect();
    if !unasked.is_empty() {
        lines.push(format!(
            "⚠ Not requested: {} {}.",
            by_number(unasked.len(), "file", "files"),
            names(unasked.into_iter())
        ));
    }
    lines
}

fn tail(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let standing = |is: fn(&Impact) -> bool| report.environments.iter().filter(|one| is(&one.impact)).count();
    let by_closure = standing(|one| {
        matches!(
            one,
            Impact::Unaffected {
                proof: Proof::ClosureUnchanged { .. }
            }
        )
    });
    let by_objects = standing(|one| {
        matches!(
            one,
            Impact::Unaffected {
                proof: Proof::SameObjects { .. }
            }
        )
    });
    let proofs: Vec<String> = [
        (by_closure, "imports", "import", "no changed file"),
        (by_objects, "renders", "render", "to the same objects"),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many, what)| format!("{} {what}", pluralize(count, one, many)))
    .collect();
    if !proofs.is_empty() {
        let unaffected = pluralize(report.counts.unaffected, "environment", "environments");
        lines.push(format!(
            "Proven unaffected: {unaffected} ({}).",
            proofs.join(", ")
        ));
    }
    lines.extend(unproven(report));
    lines
}

fn unproven(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    let unproven = report.environments.iter().filter_map(|one| match &one.impact {
        Impact::NotProven { reason } => Some((one, reason)),
        Impact::Affected { .. } | Impact::Unaffected { .. } => None,
    });
    let mut unproven: Vec<_> = unproven.collect();
    // Environments that the change breaks come first.
    unproven.sort_by_key(|(one, _)| !one.is_broken());
    for (environment, reason) in unproven.iter().take(NAMES_MAX) {
        lines.push(cut_to(&not_proven(environment, reason), LINE_CHARS_MAX).into_owned());
    }
    match unproven.len().saturating_sub(NAMES_MAX) {
        0 => {}
        left => lines.push(format!("Not proven: {}.", more(left, "environment"))),
    }
    lines
}

fn not_proven(environment: &EnvironmentReport, reason: &NotProven) -> String {
    let name = quoted(&environment.name);
    let (what, failure) = match reason {
        NotProven::FailsOnBoth { workspace, .. } => (
            "Not proven",
            format!(
                "it does not render, neither here nor on the base: {}",
                workspace.message
            ),
        ),
        NotProven::FailsOnBase { base } => (
            "Not proven",
            format!("it renders now and did not on the base: {}", base.message),
        ),
        NotProven::FailsInWorkspace { workspace } => (
            "⚠ Broken by this change",
            format!("it does not render any more: {}", workspace.message),
        ),
        NotProven::NotLookedAt { why } => ("Not proven", why.clone()),
    };
    format!("{what}: {name}, {}", visible::line(&failure))
}

fn risks(risks: &[Risk]) -> OptionalLines {
    let mut block = OptionalLines::default();
    if !risks.is_empty() {
        block.push(None, "Risks:");
    }
    for risk in risks {
        for finding in &risk.findings {
            let (severity, id, title) = (risk.severity.name(), risk.id, risk.title);
            let what = visible::line(&format!("{}: {}", finding.object, finding.detail));
            let places = names(finding.environments.iter().map(String::as_str));
            block.push(
                Some("risk"),
                &format!("  {severity} {id} {title}. {what} ({places})"),
            );
        }
    }
    block
}

fn changes(report: &Report) -> OptionalLines {
    let mut block = OptionalLines::default();
    let many = report.classes.len() > 1;
    for (position, class) in report.classes.iter().enumerate() {
        let places = names(class.environments.iter().map(String::as_str));
        let count = pluralize(class.environments.len(), "environment", "environments");
        if position > 0 && is_close(class) {
            block.push(None, &format!("Different in {count}: {places}:"));
            class
                .differs
                .iter()
                .for_each(|difference| block.push(Some("difference"), &differs(difference)));
            continue;
        }
        let heading = match (position, class.environments.len()) {
            (0, 1) if !many => format!("Changes in {places}:"),
            (0, 1) => format!("Changes in {places}, for instance:"),
            (0, _) => format!("The same change in {count}: {places}:"),
            (_, _) => format!("Another change in {count}: {places}:"),
        };
        block.push(None, &heading);
        example(report, class)
            .iter()
            .for_each(|change| object(&mut block, change));
    }
    block
}

/// True if the class has any field in common with the largest one.
fn is_close(class: &ChangeClass) -> bool {
    let meets = |difference: &ClassDifference| difference.here.is_some() && difference.elsewhere.is_some();
    class.shared > 0 || class.differs.iter().any(meets)
}

fn example<'a>(report: &'a Report, class: &ChangeClass) -> &'a [ObjectChange] {
    let first = class
        .environments
        .first()
        .and_then(|name| report.environment(name));
    first.map_or(&[], |environment| environment.objects.as_slice())
}

fn object(block: &mut OptionalLines, change: &ObjectChange) {
    let sign = match change.happens {
        ObjectChangeKind::Changed => '~',
        ObjectChangeKind::Added => '+',
        ObjectChangeKind::Removed => '-',
    };
    block.push(
        Some("object"),
        &format!("  {sign} {}", visible::line(&change.object.to_string())),
    );
    for field in change.fields.iter().take(FIELDS_MAX) {
        block.push(None, &format!("      {}", visible::field(field)));
    }
    let left = change.fields.len().saturating_sub(FIELDS_MAX);
    if left > 0 {
        block.push(None, &format!("      … {}, see the file", more(left, "field")));
    }
}

fn differs(difference: &ClassDifference) -> String {
    let place = visible::line(format!("{} {}", difference.object, difference.path).trim_end());
    match (&difference.here, &difference.elsewhere) {
        (Some(here), Some(there)) => format!(
            "  {place}: {} (elsewhere {})",
            transition(here),
            transition(there)
        ),
        (Some(here), None) => format!("  {place}: {} (unchanged elsewhere)", transition(here)),
        (None, Some(there)) => format!("  {place}: unchanged (elsewhere {})", transition(there)),
        (None, None) => format!("  {place}"),
    }
}

fn transition(transition: &Transition) -> String {
    let whole = |value: &serde_json::Value| value.get("kind").is_some() && value.get("metadata").is_some();
    match (&transition.before, &transition.after) {
        (None, Some(after)) if whole(after) => "added".to_owned(),
        (Some(before), None) if whole(before) => "removed".to_owned(),
        (before, after) => visible::format_transition(before.as_ref(), after.as_ref()),
    }
}
