//! Short names of fields for people: `replicas`, `web: memory`. Two fields of one object never get the same name.

use super::fields::FieldChange;
use std::collections::BTreeMap;

/// Returns the fields with their short names, in order.
pub(super) fn of_fields(fields: &[FieldChange]) -> Vec<(&FieldChange, String)> {
    let paths: Vec<Vec<&str>> = fields.iter().map(|field| steps(&field.path)).collect();
    let longest = paths.iter().map(Vec::len).max().unwrap_or(0);
    let mut names = vec![String::new(); fields.len()];
    let mut open: Vec<usize> = (0..fields.len()).collect();
    for count in 1..=longest {
        let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for at in open {
            let steps = paths.get(at).map_or(&[][..], Vec::as_slice);
            by_name.entry(name(steps, count)).or_default().push(at);
        }
        open = Vec::new();
        for (name, places) in by_name {
            match places.as_slice() {
                [only] => {
                    if let Some(place) = names.get_mut(*only) {
                        *place = name;
                    }
                }
                several => open.extend(several),
            }
        }
    }
    let paths = fields.iter().map(|field| field.path.as_str());
    let named = names
        .into_iter()
        .zip(paths)
        .map(|(name, path)| match name.is_empty() {
            true => path.to_owned(),
            false => name,
        });
    fields.iter().zip(named).collect()
}

/// Returns the short name of one path.
pub(super) fn last(path: &str) -> String {
    name(&steps(path), 1)
}

/// Returns the last `count` fields of a path, after the item that contains them: `web: limits.memory`.
fn name(steps: &[&str], count: usize) -> String {
    let is_item = |step: &&str| step.starts_with('[');
    let mut fields: Vec<&str> = Vec::new();
    let mut rest = steps;
    while let Some((step, before)) = rest.split_last() {
        // An item at the end belongs to its list.
        let ends_with_item = fields.iter().all(is_item);
        if is_item(step) && !ends_with_item || fields.iter().filter(|field| !is_item(field)).count() == count
        {
            break;
        }
        fields.insert(0, step);
        rest = before;
    }
    let mut name = String::new();
    for field in &fields {
        if !name.is_empty() && !is_item(field) {
            name.push('.');
        }
        name.push_str(field);
    }
    let item = rest.iter().rev().find(|step| is_item(step));
    match item.and_then(|item| item.trim_matches(['[', ']']).split_once('=')) {
        Some((_, value)) => format!("{}: {name}", value.trim_matches('"')),
        None => name,
    }
}

/// Splits a path into its fields and items: `spec`, `containers`, `[name=web]`, `image`.
fn steps(path: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let (mut start, mut is_in_item, mut is_in_text, mut is_escaped) = (0, false, false, false);
    for (at, character) in path.char_indices() {
        if is_in_text {
            is_in_text = is_escaped || character != '"';
            is_escaped = character == '\\' && !is_escaped;
            continue;
        }
        match character {
            '"' => is_in_text = is_in_item,
            '[' if !is_in_item => {
                steps.push(path.get(start..at).unwrap_or_default());
                (start, is_in_item) = (at, true);
            }
            ']' if is_in_item => {
                steps.push(path.get(start..=at).unwrap_or_default());
                (start, is_in_item) = (at + 1, false);
            }
            '.' if !is_in_item => {
                steps.push(path.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    steps.push(path.get(start..).unwrap_or_default());
    steps.retain(|step| !step.is_empty());
    steps
}

#[cfg(test)]
mod tests {
    use super::of_fields;
    use crate::rendering::review::FieldChange;

    fn named(paths: &[&str]) -> Vec<String> {
        let fields: Vec<FieldChange> = paths
            .iter()
            .map(|path| FieldChange {
                path: (*path).to_owned(),
                before: None,
                after: None,
                reordered: false,
            })
            .collect();
        of_fields(&fields).into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn a_field_has_the_shortest_name_that_no_other_field_has() {
        let pod = "spec.template.spec";
        let names = named(&[
            "spec.replicas",
            &format!("{pod}.containers[name=web].image"),
            &format!("{pod}.containers[name=web].resources.limits.memory"),
            &format!("{pod}.containers[name=web].resources.requests.memory"),
            &format!("{pod}.containers[name=proxy]"),
            &format!("{pod}.containers[name=web].env[name=LEVEL].value"),
            &format!("{pod}.containers[name=web].args[2]"),
            r#"metadata.labels["app.kubernetes.io/name"]"#,
        ]);
        assert_eq!(
            names,
            [
                "replicas",
                "web: image",
                "web: limits.memory",
                "web: requests.memory",
                "containers[name=proxy]",
                "LEVEL: value",
                "web: args[2]",
                r#"labels["app.kubernetes.io/name"]"#,
            ]
        );
    }

    #[test]
    fn no_path_is_without_a_name() {
        assert_eq!(named(&["", "a", "a"]), ["", "a", "a"]);
        assert_eq!(named(&["[", "x]y", r#"["a]\n.b"].c"#]).len(), 3);
    }
}
