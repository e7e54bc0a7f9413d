//! The overview of a report: the first screen of a result. It counts the environments, and names the first few
//! objects and fields, with short names; the full text follows it in a result.

use super::asked_for::AskedFor;
use super::classes::{ChangeClass, ClassDifference};
use super::diff::{ObjectChange, ObjectChangeKind};
use super::fields::FieldChange;
use super::report::{EnvironmentReport, Report};
use super::{settings, short_names, summary, visible};
use crate::base::model::{ChangeOverview, ObjectOverview, by_number, cut_to, pluralize, short_line};

/// The maximum number of objects. Further ones are only counted.
const OBJECTS_MAX: usize = 5;
/// The maximum number of fields of one object. Further ones are only counted.
const FIELDS_MAX: usize = 4;
/// The maximum number of risks. Further ones are only counted.
const RISKS_MAX: usize = 2;
/// The maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 120;
/// The maximum number of characters of a line.
const LINE_CHARS_MAX: usize = 240;
/// The directory that the names of environments often share.
const ENVIRONMENTS: &str = "environments/";

pub(super) fn overview(report: &Report) -> ChangeOverview {
    let mut objects: Vec<ObjectOverview> = Vec::new();
    let mut count = 0;
    for (position, class) in report.classes.iter().enumerate() {
        let shown = match position {
            0 => first_class(report, class),
            _ => other_class(report, class),
        };
        count += shown.len();
        let room = OBJECTS_MAX.saturating_sub(objects.len());
        objects.extend(shown.into_iter().take(room));
    }
    ChangeOverview {
        scope: scope(report),
        warnings: warnings(report),
        headline: headline(report),
        rest: match count.saturating_sub(objects.len()) {
            0 => String::new(),
            more => format!("and {more} more below"),
        },
        objects,
        risks: risks(report),
        unchanged: report.counts.unaffected,
    }
}

/// Returns the environments that change, in a few words.
fn scope(report: &Report) -> String {
    let changing: Vec<&EnvironmentReport> = changing(report).collect();
    match changing.as_slice() {
        [] => String::new(),
        [only] => short(&only.name),
        several => pluralize(several.len(), "environment", "environments"),
    }
}

fn changing(report: &Report) -> impl Iterator<Item = &EnvironmentReport> {
    let all = report.environments.iter();
    all.filter(|environment| environment.is_affected() || environment.is_broken())
}

fn warnings(report: &Report) -> Vec<String> {
    let mut lines = settings::lines(&report.settings);
    let environments: Vec<&str> = changing(report)
        .filter(|one| one.asked_for == AskedFor::No)
        .map(|one| one.name.as_str())
        .collect();
    let files = report.files.iter().filter(|one| one.asked_for == AskedFor::No);
    let files: Vec<&str> = files.map(|one| one.path.as_str()).collect();
    for (names, one, many) in [
        (environments, "environment", "environments"),
        (files, "file", "files"),
    ] {
        if !names.is_empty() {
            let noun = by_number(names.len(), one, many);
            lines.push(format!(
                "⚠ Not requested: {noun} {}.",
                summary::names(names.into_iter())
            ));
        }
    }
    lines
}

fn headline(report: &Report) -> String {
    let counts = &report.counts;
    if counts.environments == 0 {
        return String::new();
    }
    let objects = counts.objects_added + counts.objects_changed + counts.objects_removed;
    let what = match report.classes.len() {
        0 | 1 => pluralize(objects, "object", "objects"),
        groups => format!("in {groups} groups"),
    };
    let mut line = format!(
        "{} of {} {}, {what}",
        counts.affected,
        pluralize(counts.environments, "environment", "environments"),
        by_number(counts.affected, "changes", "change"),
    );
    let unproven = counts.not_proven.saturating_sub(counts.broken);
    for (count, what) in [(counts.broken, "broken"), (unproven, "not proven")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    line
}

/// Returns the objects of the largest group, as its first environment has them.
fn first_class(report: &Report, class: &ChangeClass) -> Vec<ObjectOverview> {
    let example = class
        .environments
        .first()
        .and_then(|name| report.environment(name));
    let changes = example.map_or(&[][..], |environment| environment.objects.as_slice());
    changes.iter().map(|change| object(class, change)).collect()
}

fn object(class: &ChangeClass, change: &ObjectChange) -> ObjectOverview {
    let what = format!("{} {}", change.object.kind, change.object.name);
    let what = short_line(what.trim(), NAME_CHARS_MAX);
    let sign = match change.happens {
        ObjectChangeKind::Changed => "",
        ObjectChangeKind::Added => " is new",
        ObjectChangeKind::Removed => " is removed",
    };
    let named: Vec<(&FieldChange, String)> = short_names::of_fields(&change.fields);
    let shown = named.iter().take(FIELDS_MAX).map(|(field, name)| {
        let values = match field.reordered {
            true => "in another order".to_owned(),
            false => visible::format_transition(field.before.as_ref(), field.after.as_ref()),
        };
        (short_line(name, NAME_CHARS_MAX), values)
    });
    ObjectOverview {
        title: cut_to(&format!("{} · {what}{sign}", group(class)), LINE_CHARS_MAX).into_owned(),
        fields: with_rest(shown.collect(), named.len()),
    }
}

/// Returns the differences of another group from the largest one, as one entry.
fn other_class(report: &Report, class: &ChangeClass) -> Vec<ObjectOverview> {
    if class.shared == 0 {
        return first_class(report, class);
    }
    let named: Vec<String> = class.differs.iter().map(short_place).collect();
    let shown = class
        .differs
        .iter()
        .zip(&named)
        .take(FIELDS_MAX)
        .map(|(difference, name)| {
            let is_unique = named.iter().filter(|other| *other == name).count() == 1;
            let place = match is_unique {
                true => name.clone(),
                false => format!("{} {}", difference.object, difference.path),
            };
            (short_line(place.trim(), NAME_CHARS_MAX), here(difference))
        });
    vec![ObjectOverview {
        title: format!("{} · the same, except:", group(class)),
        fields: with_rest(shown.collect(), class.differs.len()),
    }]
}

fn short_place(difference: &ClassDifference) -> String {
    let path = short_names::last(&difference.path);
    format!("{} {path}", difference.object).trim().to_owned()
}

fn here(difference: &ClassDifference) -> String {
    match &difference.here {
        Some(_) if difference.path.is_empty() => "only here".to_owned(),
        Some(here) => visible::format_transition(here.before.as_ref(), here.after.as_ref()),
        None => "unchanged here".to_owned(),
    }
}

fn with_rest(mut fields: Vec<(String, String)>, count: usize) -> Vec<(String, String)> {
    match count.saturating_sub(fields.len()) {
        0 => {}
        more => fields.push((
            "…".to_owned(),
            format!("{more} more {}", by_number(more, "field", "fields")),
        )),
    }
    fields
}

/// Returns the environments of a group: `dev`, or `30 like prod-us`.
fn group(class: &ChangeClass) -> String {
    let first = class.environments.first().map(|name| short(name));
    let first = first.unwrap_or_default();
    match class.environments.len() {
        1 => first,
        count => format!("{count} like {first}"),
    }
}

/// Returns the name of an environment without the directory that most of them share.
fn short(name: &str) -> String {
    short_line(name.strip_prefix(ENVIRONMENTS).unwrap_or(name), NAME_CHARS_MAX)
}

fn risks(report: &Report) -> Vec<String> {
    let findings = report
        .risks
        .iter()
        .flat_map(|risk| risk.findings.iter().map(move |finding| (risk, finding)));
    let mut lines: Vec<String> = findings
        .clone()
        .take(RISKS_MAX)
        .map(|(risk, finding)| {
            let places = match finding.environments.as_slice() {
                [only] => short(only),
                several => pluralize(several.len(), "environment", "environments"),
            };
            let (kind, name) = finding.object.split_once(' ').unwrap_or((&finding.object, ""));
            let kind = kind.rsplit('/').next().unwrap_or_default();
            let what = short_line(format!("{kind} {name}").trim(), NAME_CHARS_MAX);
            let (severity, title) = (risk.severity.name(), risk.title);
            format!("Risk ({severity}): {title}, {what} in {places}. {}", risk.id)
        })
        .collect();
    match findings.count().saturating_sub(lines.len()) {
        0 => {}
        more => lines.push(format!("and {more} more {}", by_number(more, "risk", "risks"))),
    }
    lines
}

#[cfg(test)]
mod tests;
