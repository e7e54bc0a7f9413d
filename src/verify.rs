//! What we check about a change ourselves. A check that could not run says so: it is never a pass.

use crate::model::{Check, CheckState, FileChange};
use crate::redact::Redactor;

/// Where the change stands against its repository.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The commit the change is based on.
    pub base: &'a str,
    /// The branch's newest commit.
    pub head: &'a str,
    /// The branch's name.
    pub branch: &'a str,
}

/// Runs every check on a change, in a fixed order.
pub fn checks(changes: &[FileChange], standing: Standing<'_>, redactor: &Redactor) -> Vec<Check> {
    vec![
        base_is_current(standing),
        json_parses(changes),
        no_conflict_markers(changes),
        no_secrets(changes, redactor),
        jsonnet_evaluates(changes),
    ]
}

fn check(name: &str, state: CheckState, detail: impl Into<String>) -> Check {
    Check {
        name: name.to_owned(),
        state,
        detail: detail.into(),
    }
}

fn base_is_current(standing: Standing<'_>) -> Check {
    let name = "base is the newest commit";
    if standing.base == standing.head {
        return check(name, CheckState::Pass, "");
    }
    let detail = format!(
        "`{}` has moved on; `discard` and ask again to start from its newest commit",
        standing.branch
    );
    check(name, CheckState::Fail, detail)
}

fn json_parses(changes: &[FileChange]) -> Check {
    let files = written(changes, &["json"]);
    let mut broken = files.iter().filter_map(|(path, text)| {
        let error = serde_json::from_str::<serde::de::IgnoredAny>(text).err()?;
        Some(format!(
            "`{path}`:{}:{}: {}",
            error.line(),
            error.column(),
            shape(&error)
        ))
    });
    summarise("JSON parses", files.len(), broken.next())
}

fn no_conflict_markers(changes: &[FileChange]) -> Check {
    let files = written(changes, &[]);
    let mut broken = files.iter().filter_map(|(path, text)| {
        let line = text
            .lines()
            .position(|line| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> "))?;
        Some(format!("`{path}`:{}", line + 1))
    });
    summarise("no conflict markers", files.len(), broken.next())
}

fn no_secrets(changes: &[FileChange], redactor: &Redactor) -> Check {
    let files = written(changes, &[]);
    let mut broken = changes.iter().filter_map(|change| {
        let before = change
            .before
            .as_ref()
            .map(|before| String::from_utf8_lossy(&before.content));
        let known: std::collections::HashSet<&str> = before
            .as_deref()
            .map(|text| text.lines().collect())
            .unwrap_or_default();
        let after = change.after.as_ref()?;
        let after = String::from_utf8_lossy(&after.content);
        let line = after
            .lines()
            .position(|line| !known.contains(line) && redactor.redact(line) != line)?;
        Some(format!("`{}`:{} looks like a secret", change.path, line + 1))
    });
    summarise("no secrets in added lines", files.len(), broken.next())
}

fn jsonnet_evaluates(changes: &[FileChange]) -> Check {
    let name = "Jsonnet evaluates";
    match written(changes, &["jsonnet", "libsonnet"]).len() {
        0 => check(name, CheckState::NotRun, "no Jsonnet file changed"),
        _ => check(name, CheckState::NotRun, "this version does not evaluate Jsonnet"),
    }
}

fn summarise(name: &str, files: usize, broken: Option<String>) -> Check {
    match (files, broken) {
        (_, Some(detail)) => check(name, CheckState::Fail, detail),
        (0, None) => check(name, CheckState::NotRun, "no such file changed"),
        (_, None) => check(name, CheckState::Pass, ""),
    }
}

/// The text files a change writes, of these extensions or of any.
fn written<'a>(changes: &'a [FileChange], extensions: &[&str]) -> Vec<(&'a str, &'a str)> {
    let text = |change: &'a FileChange| {
        let path = change.path.as_str();
        let extension = change
            .path
            .file_name()
            .rsplit_once('.')
            .map_or("", |(_, extension)| extension);
        let wanted = extensions.is_empty() || extensions.contains(&extension);
        let content = std::str::from_utf8(&change.after.as_ref()?.content).ok()?;
        wanted.then_some((path, content))
    };
    changes.iter().filter_map(text).collect()
}

/// The kind of a JSON error without the position, which serde_json would repeat.
fn shape(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.clone(), |(shape, _)| shape.to_owned())
}
