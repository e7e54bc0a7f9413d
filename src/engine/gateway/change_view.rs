//! The parts of a reply that show a prepared change, in the order of a result: what fails, what changes where, what was
//! checked, and the diff. A reader on a phone sees the first lines without opening anything.

use crate::base::model::{
    Change, Check, CheckState, FoldState, ReplyPart, group_thousands, pluralize, short_line, totals,
};

/// Maximum number of files listed by name. Further ones are only counted.
const FILES_SHOWN_MAX: usize = 10;
/// Longest file name in a row, in characters.
const FILE_CHARS_MAX: usize = 160;
/// Longest detail of a check in a row, in characters.
const DETAIL_CHARS_MAX: usize = 600;
/// Maximum number of lines of a diff that is visible at first.
const OPEN_LINES_MAX: usize = 12;

/// Returns the failing checks with the first line of their output.
pub(super) fn failures(change: &Change) -> impl Iterator<Item = ReplyPart> {
    let failing = change
        .checks
        .iter()
        .filter(|check| check.state == CheckState::Fail);
    failing.map(|check| ReplyPart::Text {
        text: format!("Fails: {}{}", check.name, detail(check)),
    })
}

/// Returns the number of failing checks and of those that ran, such as `1 of 8 checks fails`; `None` if none fails.
pub(super) fn failing_count(change: &Change) -> Option<String> {
    failing_of(&change.checks)
}

/// Returns the number of failing checks like [`failing_count`].
pub(super) fn failing_of(checks: &[Check]) -> Option<String> {
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (failing, passed) = (count(CheckState::Fail), count(CheckState::Pass));
    (failing > 0).then(|| {
        let all = pluralize(failing + passed, "check", "checks");
        format!(
            "{failing} of {all} {}",
            if failing == 1 { "fails" } else { "fail" }
        )
    })
}

/// Returns the effects on environments for the first screen: warnings, numbers, the first objects, and risks.
pub(super) fn overview(change: &Change) -> Vec<ReplyPart> {
    let overview = &change.overview;
    let text = |text: &String| ReplyPart::Text { text: text.clone() };
    let mut parts: Vec<ReplyPart> = overview.warnings.iter().map(text).collect();
    if !overview.headline.is_empty() {
        let text = overview.headline.clone();
        parts.push(ReplyPart::Heading { text });
    }
    for object in &overview.objects {
        parts.push(text(&object.title));
        if !object.fields.is_empty() {
            let rows = object.fields.clone();
            parts.push(ReplyPart::Facts { rows });
        }
    }
    if !overview.rest.is_empty() {
        parts.push(text(&overview.rest));
    }
    parts.extend(overview.risks.iter().map(text));
    parts
}

/// Returns the checks in one line, which opens to each check and to the effects in full.
pub(super) fn checks(change: &Change) -> ReplyPart {
    let count = |state| change.checks.iter().filter(|check| check.state == state).count();
    let passed = pluralize(count(CheckState::Pass), "check", "checks");
    let mut title = format!("{passed} passed");
    for (state, what) in [(CheckState::Fail, "failed"), (CheckState::NotRun, "not run")] {
        match count(state) {
            0 => {}
            count => title.push_str(&format!(", {count} {what}")),
        }
    }
    title.push('.');
    if change.overview.unchanged > 0 {
        let unchanged = pluralize(change.overview.unchanged, "environment", "environments");
        title.push_str(&format!(" {unchanged} proven unchanged."));
    }
    let rows = change.checks.iter().map(|check| {
        let state = match check.state {
            CheckState::Pass => "pass",
            CheckState::Fail => "FAILED",
            CheckState::NotRun => "not run",
        };
        (check.name.clone(), format!("{state}{}", detail(check)))
    });
    let mut parts = vec![ReplyPart::Facts { rows: rows.collect() }];
    if !change.effects.is_empty() {
        let text = change.effects.clone();
        parts.push(ReplyPart::Text { text });
    }
    ReplyPart::Fold {
        title,
        state: FoldState::Closed,
        parts,
    }
}

fn detail(check: &Check) -> String {
    match check.detail.as_str() {
        "" => String::new(),
        detail => format!(": {}", short_line(detail, DETAIL_CHARS_MAX)),
    }
}

/// Returns the diff if it is small. Otherwise returns the files, and a line that names the file that follows.
pub(super) fn diff(change: &Change, inline_bytes_max: usize) -> Vec<ReplyPart> {
    if !fits_inline(change, inline_bytes_max) {
        let text = format!(
            "The diff has {} bytes; it follows as `CHG-{}.diff`.",
            group_thousands(change.patch.len() as u64),
            change.number
        );
        let rows = files(change);
        return vec![ReplyPart::Facts { rows }, ReplyPart::Text { text }];
    }
    let text = shown_diff(&String::from_utf8_lossy(&change.patch));
    let state = match text.lines().count() <= OPEN_LINES_MAX {
        true => FoldState::Open,
        false => FoldState::Closed,
    };
    let code = ReplyPart::Code {
        language: "diff".to_owned(),
        text,
    };
    let rows = files(change);
    let (title, parts) = match rows.as_slice() {
        [(path, count)] => (format!("{path}  {count}"), vec![code]),
        _ => {
            let title = format!("Source diff: {}", totals(&change.stats));
            (title, vec![ReplyPart::Facts { rows }, code])
        }
    };
    vec![ReplyPart::Fold { title, state, parts }]
}

/// Opens the folds of parts that a person asked for.
pub(super) fn opened(parts: Vec<ReplyPart>) -> impl Iterator<Item = ReplyPart> {
    parts.into_iter().map(|part| match part {
        ReplyPart::Fold { title, parts, .. } => ReplyPart::Fold {
            title,
            state: FoldState::Open,
            parts,
        },
        part => part,
    })
}

/// Returns one row for each changed file.
fn files(change: &Change) -> Vec<(String, String)> {
    let shown = change.stats.iter().take(FILES_SHOWN_MAX).map(|stats| {
        let count = if stats.binary {
            "binary".to_owned()
        } else {
            format!("+{} −{}", stats.added, stats.removed)
        };
        (short_line(stats.path.as_str(), FILE_CHARS_MAX), count)
    });
    let mut rows: Vec<(String, String)> = shown.collect();
    if change.stats.len() > FILES_SHOWN_MAX {
        let more = change.stats.len() - FILES_SHOWN_MAX;
        rows.push((format!("and {more} more files"), String::new()));
    }
    rows
}

/// Returns a patch without the lines that say nothing to a reader: the hashes, and the first line of a file whose names
/// follow. A line of a hunk begins with a space or a sign.
fn shown_diff(patch: &str) -> String {
    const FILE: &str = "diff --git ";
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let has_names = |at: usize| {
        let header = lines
            .iter()
            .skip(at + 1)
            .take_while(|line| !line.starts_with(FILE));
        let mut header = header.take_while(|line| !line.starts_with("@@"));
        header.any(|line| line.starts_with("--- "))
    };
    let is_noise =
        |at: usize, line: &str| line.starts_with("index ") || (line.starts_with(FILE) && has_names(at));
    let shown = lines.iter().enumerate().filter(|(at, line)| !is_noise(*at, line));
    shown.map(|(_, line)| *line).collect()
}

/// True if the diff is shown in the message itself.
pub(super) fn fits_inline(change: &Change, inline_bytes_max: usize) -> bool {
    change.patch.len() <= inline_bytes_max
}

#[cfg(test)]
mod tests {
    use super::shown_diff;

    #[test]
    fn a_shown_diff_names_every_file_and_has_no_hashes() {
        let patch = "diff --git a/one b/one\nindex 1..2 100644\n--- a/one\n+++ b/one\n@@ -1 +1 @@\n-a\n+b\n\
                     diff --git a/two b/two\nold mode 100644\nnew mode 100755\n\
                     diff --git a/three b/three\ndeleted file mode 100644\nindex 3..0\n";
        assert_eq!(
            shown_diff(patch),
            "--- a/one\n+++ b/one\n@@ -1 +1 @@\n-a\n+b\n\
             diff --git a/two b/two\nold mode 100644\nnew mode 100755\n\
             diff --git a/three b/three\ndeleted file mode 100644\n"
        );
    }
}
