//! Differences between two JSON values, and the table that explains them.

use serde_json::Value;
use std::collections::BTreeSet;

/// A difference: the comparison, and the place where the values differ.
pub type Difference = (String, String);

/// Adds the places where two values differ. The place of a list has `*` for the number.
pub fn differences(comparison: &str, ours: &Value, theirs: &Value, found: &mut BTreeSet<Difference>) {
    compare(comparison, "", ours, theirs, found);
}

fn compare(comparison: &str, place: &str, ours: &Value, theirs: &Value, found: &mut BTreeSet<Difference>) {
    let mut differ = |place: &str, what: &str| {
        found.insert((comparison.to_owned(), format!("{place} {what}")));
    };
    match (ours, theirs) {
        (Value::Object(mine), Value::Object(others)) => {
            let names: BTreeSet<&String> = mine.keys().chain(others.keys()).collect();
            for name in names {
                let place = format!("{place}/{name}");
                match (mine.get(name), others.get(name)) {
                    (Some(ours), Some(theirs)) => compare(comparison, &place, ours, theirs, found),
                    (Some(_), None) => {
                        drop(found.insert((comparison.to_owned(), format!("{place} only in ours"))))
                    }
                    _ => drop(found.insert((comparison.to_owned(), format!("{place} only in theirs")))),
                }
            }
        }
        (Value::Array(mine), Value::Array(others)) => {
            if mine.len() != others.len() {
                differ(place, &format!("{} entries, theirs {}", mine.len(), others.len()));
                return;
            }
            let place = format!("{place}/*");
            for (ours, theirs) in mine.iter().zip(others) {
                compare(comparison, &place, ours, theirs, found);
            }
        }
        (Value::Number(mine), Value::Number(others)) if mine.as_f64() == others.as_f64() => {}
        // Arguments as JSON text may have other spaces.
        (Value::String(mine), Value::String(others)) if is_same_json(mine, others) => {}
        _ if ours == theirs => {}
        _ if kind(ours) != kind(theirs) => {
            differ(place, &format!("{}, theirs {}", kind(ours), kind(theirs)));
        }
        _ => differ(place, &format!("{}, theirs {}", short(ours), short(theirs))),
    }
}

fn is_same_json(ours: &str, theirs: &str) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    parsed(ours).is_some_and(|ours| parsed(theirs) == Some(ours))
}

/// Returns the kind of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Returns a value if it is short, and else its kind.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.len() {
        0..=40 => format!("`{text}`"),
        _ => kind(value).to_owned(),
    }
}

/// Returns the rows of the table: comparison, place and reason.
pub fn explained(table: &str) -> Vec<(Difference, String)> {
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| comparison"));
    let cells = rows.map(|row| {
        row.trim_matches(['|', ' '])
            .split(" | ")
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    cells
        .map(|cells| match cells.as_slice() {
            [comparison, place, reason] if reason.len() > 10 => {
                ((comparison.to_string(), place.to_string()), reason.to_string())
            }
            _ => panic!("three columns with a reason: {cells:?}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{differences, explained};
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    fn places(ours: &Value, theirs: &Value) -> Vec<String> {
        let mut found = BTreeSet::new();
        differences("x", ours, theirs, &mut found);
        found.into_iter().map(|(_, place)| place).collect()
    }

    #[test]
    fn each_difference_is_found_at_its_place() {
        let ours = json!({"a": 1, "b": [{"c": "x"}, {"c": "y"}], "d": "{\"e\": 1}", "f": null});
        assert_eq!(places(&ours, &ours), [""; 0]);
        let theirs = json!({"a": 1.0, "b": [{"c": "x"}, {"c": ["y"]}], "d": "{\"e\":1}", "g": true});
        let expected = [
            "/b/*/c a text, theirs a list",
            "/f only in ours",
            "/g only in theirs",
        ];
        assert_eq!(places(&ours, &theirs), expected);
        assert_eq!(places(&json!([1]), &json!([1, 2])), [" 1 entries, theirs 2"]);
        assert_eq!(places(&json!("a"), &json!("b")), [" `\"a\"`, theirs `\"b\"`"]);
    }

    #[test]
    fn a_row_has_its_place_and_a_reason() {
        let table = "# Title\n| comparison | place | reason |\n|---|---|---|\n| a b | /c only in ours | Because of a reason. |\n";
        let rows = explained(table);
        let expected = (
            ("a b".to_owned(), "/c only in ours".to_owned()),
            "Because of a reason.".to_owned(),
        );
        assert_eq!(rows, [expected]);
    }

    #[test]
    #[should_panic(expected = "three columns with a reason")]
    fn a_row_without_a_reason_is_refused() {
        explained("| a b | /c only in ours | |\n");
    }
}
