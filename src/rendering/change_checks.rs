//! The checks of the changed files themselves (they parse, hold no secret, and start from the newest commit), and the
//! outcome of all checks of a change. A check that could not run is reported as such; it never counts as passed.

use crate::base::model::{Check, CheckState, FileChange, FileMode};
use crate::base::redact::Redactor;
use crate::rendering::compare::ChangeReport;
use std::collections::{BTreeSet, HashMap};

/// The position of a change relative to its branch.
#[derive(Clone, Copy, Debug)]
pub struct BranchState<'a> {
    /// The commit the change is based on.
    pub base: &'a str,
    /// The branch's newest commit.
    pub head: &'a str,
    /// The branch's name.
    pub branch: &'a str,
}

/// The outcome of all checks of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The files are the same as in the base.
    Unchanged,
    /// All files were checked, and everything holds.
    Passed,
    /// The conditions that do not hold, one line each, redacted.
    Failed(Vec<String>),
    /// The check is incomplete: nothing failed, but not everything could be checked. Holds the reason, in one line,
    /// redacted.
    Incomplete(String),
}

/// Runs, in a fixed order, every check that needs no environments.
pub fn check_files(changes: &[FileChange], state: BranchState<'_>, redactor: &Redactor) -> Vec<Check> {
    let mut checks = vec![base_is_current(state)];
    checks.extend(check_contents(changes, redactor));
    checks
}

/// Runs, in a fixed order, every check of [`check_files`] that is of the files alone.
pub fn check_contents(changes: &[FileChange], redactor: &Redactor) -> Vec<Check> {
    vec![
        json_parses(changes),
        no_conflict_markers(changes),
        no_secrets(changes, redactor),
    ]
}

/// Combines the checks of the files and the results of the environments into one outcome. The model is asked only to
/// fix problems that the change caused and that edits to the files can fix.
pub fn combined_outcome(checks: &[Check], report: &ChangeReport) -> CheckOutcome {
    let is_of_the_files = |check: &&Check| [JSON_PARSES, NO_CONFLICT_MARKERS].contains(&check.name.as_str());
    let broken = checks
        .iter()
        .filter(is_of_the_files)
        .filter(|check| check.state == CheckState::Fail)
        .map(|check| format!("{}: no, {}", check.name, check.detail));
    let failing: Vec<String> = broken.chain(report.failing.iter().cloned()).collect();
    match &report.unknown {
        _ if !failing.is_empty() => CheckOutcome::Failed(failing),
        Some(why) => CheckOutcome::Incomplete(why.clone()),
        None => CheckOutcome::Passed,
    }
}

const JSON_PARSES: &str = "JSON parses";
const NO_CONFLICT_MARKERS: &str = "no conflict markers";

fn check(name: &str, state: CheckState, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        state,
        detail: detail.into(),
    }
}

fn base_is_current(state: BranchState<'_>) -> Check {
    let name = "base is the newest commit";
    if state.base == state.head {
        return check(name, CheckState::Pass, "");
    }
    let detail = format!(
        "`{}` has newer commits; `discard` and ask again to start from the newest",
        state.branch
    );
    check(name, CheckState::Fail, detail)
}

fn json_parses(changes: &[FileChange]) -> Check {
    let files = written(changes, &["json"]);
    let mut broken = files.iter().filter_map(|(path, content)| {
        let error = serde_json::from_slice::<serde::de::IgnoredAny>(content).err()?;
        Some(format!(
            "`{path}`:{}:{}: {}",
            error.line(),
            error.column(),
            shape(&error)
        ))
    });
    summarise(JSON_PARSES, files.len(), broken.next())
}

fn no_conflict_markers(changes: &[FileChange]) -> Check {
    let files = written(changes, &[]);
    let mut broken = files.iter().filter_map(|(path, content)| {
        let line = content
            .split(|byte| *byte == b'\n')
            .position(|line| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> "))?;
        Some(format!("`{path}`:{}", line + 1))
    });
    summarise(NO_CONFLICT_MARKERS, files.len(), broken.next())
}

fn no_secrets(changes: &[FileChange], redactor: &Redactor) -> Check {
    for version in changes
        .iter()
        .flat_map(|change| change.before.iter().chain(&change.after))
    {
        redactor.learn_file(None, &version.content);
    }
    let files = written(changes, &[]);
    let mut broken = changes.iter().filter_map(|change| {
        let line = first_secret_line(change, redactor)?;
        Some(format!("`{}`:{line} looks like a secret", change.path))
    });
    summarise("no secrets in added lines", files.len(), broken.next())
}

/// Returns the first line that holds a secret in a new version of a file. A line also counts if it held a secret
/// before and no longer looks like one. `redactor` knows the old content of the files, so an edit next to a value
/// does not make the value public.
fn first_secret_line(change: &FileChange, redactor: &Redactor) -> Option<usize> {
    let content = &change.after.as_ref()?.content;
    let after = String::from_utf8_lossy(content);
    let hidden = redactor.lines(&after);
    if hidden.is_empty() {
        return None;
    }
    let still = secret_lines(content, redactor);
    let before = change.before.as_ref().map(|before| &before.content);
    let was = before.map(|before| (String::from_utf8_lossy(before), secret_lines(before, redactor)));
    // Lines of the old content, and whether each held a secret.
    let mut known: HashMap<&str, bool> = HashMap::new();
    if let Some((text, secret)) = &was {
        known.extend(numbered(text).map(|(at, line)| (line, secret.contains(&at))));
    }
    let mut found = numbered(&after).filter(|(at, _)| hidden.contains(at));
    let found = found.find(|(at, line)| match known.get(line) {
        None => true,
        Some(was_secret) => *was_secret && !still.contains(at),
    });
    found.map(|(at, _)| at)
}

/// Returns the lines of a file that hold a secret, judged by that file alone.
fn secret_lines(content: &[u8], redactor: &Redactor) -> BTreeSet<usize> {
    let alone = redactor.fresh();
    alone.learn_file(None, content);
    alone.lines(&String::from_utf8_lossy(content))
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

fn summarise(name: &str, files: usize, broken: Option<String>) -> Check {
    match (files, broken) {
        (_, Some(detail)) => check(name, CheckState::Fail, detail),
        (0, None) => check(name, CheckState::NotRun, "no such file changed"),
        (_, None) => check(name, CheckState::Pass, ""),
    }
}

/// Returns the files that a change writes, without links, filtered by extension if `extensions` is not empty.
fn written<'a>(changes: &'a [FileChange], extensions: &[&str]) -> Vec<(&'a str, &'a [u8])> {
    let file = |change: &'a FileChange| {
        let path = change.path.as_str();
        let extension = change
            .path
            .file_name()
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension);
        let wanted = extensions.is_empty() || extensions.contains(&extension);
        let after = change
            .after
            .as_ref()
            .filter(|after| after.mode != FileMode::Symlink)?;
        wanted.then_some((path, after.content.as_ref()))
    };
    changes.iter().filter_map(file).collect()
}

/// Returns the kind of a JSON error without its position, which serde_json would repeat.
fn shape(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.clone(), |(shape, _)| shape.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::{BranchState, CheckOutcome, check_files, combined_outcome};
    use crate::base::model::{Check, CheckState, FileChange, FileMode, FileVersion, RepoPath};
    use crate::base::redact::Redactor;
    use crate::rendering::compare::ChangeReport;
    use bytes::Bytes;

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n\
        MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n\
        -----END PRIVATE KEY-----\n";

    fn version(text: &str) -> FileVersion {
        FileVersion {
            content: Bytes::copy_from_slice(text.as_bytes()),
            mode: FileMode::Regular,
        }
    }

    fn change(path: &str, before: Option<&str>, after: Option<&str>) -> FileChange {
        FileChange {
            path: RepoPath::parse(path).unwrap(),
            before: before.map(version),
            after: after.map(version),
        }
    }

    fn checked(changes: &[FileChange]) -> Vec<Check> {
        let state = BranchState {
            base: "a",
            head: "a",
            branch: "main",
        };
        check_files(changes, state, &Redactor::new([]))
    }

    fn state(changes: &[FileChange], name: &str) -> (CheckState, String) {
        let check = checked(changes)
            .into_iter()
            .find(|check| check.name == name)
            .unwrap();
        (check.state, check.detail)
    }

    /// T59
    #[test]
    fn a_private_key_of_many_lines_is_found_where_it_begins() {
        let text = format!("# notes\n{KEY}");
        let (found, detail) = state(
            &[change("notes.md", Some("# notes\n"), Some(&text))],
            "no secrets in added lines",
        );
        assert_eq!(
            (found, detail.as_str()),
            (CheckState::Fail, "`notes.md`:2 looks like a secret")
        );
    }

    #[test]
    fn a_secret_already_in_the_base_is_not_blamed_on_the_change() {
        let before = format!("{KEY}replicas: 2\n");
        let after = format!("{KEY}replicas: 3\n");
        let changes = [change("a.yaml", Some(&before), Some(&after))];
        assert_eq!(
            state(&changes, "no secrets in added lines"),
            (CheckState::Pass, String::new())
        );
    }

    /// T59: an edit next to a value does not make it public.
    #[test]
    fn what_was_a_secret_before_an_edit_is_one_after_it() {
        let name = "no secrets in added lines";
        let begin = KEY.lines().next().unwrap();
        let beheaded = format!("replicas: 2\n{}", KEY.replace(begin, "").trim_start());
        let whole = format!("replicas: 2\n{KEY}");
        let secret = "q7Rk2ZpX9vTn4WbY6mLc";
        for (before, after, line) in [
            (whole.as_str(), beheaded.as_str(), 2),
            (
                &format!("a: 1\npassword: '{secret}'\n"),
                &format!("a: 1\ncolour: '{secret}'\n"),
                2,
            ),
            (
                &format!("- name: DB_PASSWORD\n  value: {secret}\n"),
                &format!("- name: DB_COLOUR\n  value: {secret}\n"),
                2,
            ),
            (
                "kind: Secret\nstringData:\n  a: blue-moon-42\n",
                "kind: Colour\nstringData:\n  a: blue-moon-42\n",
                3,
            ),
        ] {
            let changes = [change("a.txt", Some(before), Some(after))];
            let expected = format!("`a.txt`:{line} looks like a secret");
            assert_eq!(state(&changes, name), (CheckState::Fail, expected), "{after}");
        }
        // The value moves to another file.
        let moved = [
            change("a.yaml", Some(&format!("password: '{secret}'\n")), None),
            change("b.yaml", Some("x: 1\n"), Some(&format!("x: 1\ny: '{secret}'\n"))),
        ];
        let expected = "`b.yaml`:2 looks like a secret".to_owned();
        assert_eq!(state(&moved, name), (CheckState::Fail, expected));
    }

    #[test]
    fn broken_json_is_named_by_line_and_a_deleted_file_is_checked_for_nothing() {
        let changes = [
            change("old.json", Some("{}"), None),
            change("environments/dev/spec.json", None, Some("{\n  \"a\": ,\n}")),
        ];
        let (found, detail) = state(&changes, "JSON parses");
        assert_eq!(found, CheckState::Fail);
        assert!(detail.starts_with("`environments/dev/spec.json`:2:"), "{detail}");
        let deleted = [change("old.json", Some("{}"), None)];
        for check in checked(&deleted).iter().skip(1) {
            assert_eq!(check.state, CheckState::NotRun, "{}", check.name);
        }
    }

    #[test]
    fn a_file_error_is_a_failure_even_if_another_check_could_not_run() {
        let report = ChangeReport {
            unknown: Some("it took more than 120 s".to_owned()),
            ..ChangeReport::default()
        };
        let fine = checked(&[change("a.json", None, Some("{}"))]);
        assert_eq!(
            combined_outcome(&fine, &ChangeReport::default()),
            CheckOutcome::Passed
        );
        assert_eq!(
            combined_outcome(&fine, &report),
            CheckOutcome::Incomplete("it took more than 120 s".to_owned())
        );
        let CheckOutcome::Failed(failing) =
            combined_outcome(&checked(&[change("a.json", None, Some("{"))]), &report)
        else {
            panic!("broken JSON holds");
        };
        assert!(
            failing[0].starts_with("JSON parses: no, `a.json`:1:"),
            "{failing:?}"
        );
        let unmet = ChangeReport {
            failing: vec!["both engines agree: no, `environments/dev`".to_owned()],
            ..report
        };
        assert_eq!(
            combined_outcome(&fine, &unmet),
            CheckOutcome::Failed(unmet.failing.clone())
        );
    }

    #[test]
    fn a_conflict_marker_is_named_by_line() {
        let changes = [change("a.md", None, Some("x\n<<<<<<< ours\n"))];
        assert_eq!(
            state(&changes, "no conflict markers"),
            (CheckState::Fail, "`a.md`:2".to_owned())
        );
    }
}
