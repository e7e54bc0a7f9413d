//! The check of the structure of a file: known keys, types, patterns and sizes. It reads the shapes of the schema, and
//! returns the value with all keys in snake case.

use super::document::{DocumentContent, DocumentEntry, DocumentValue, snake_case};
use super::problem::{FoundProblems, name_hint, shown_name};
use super::shape::{FieldsShape, MapShape, Shape, ShapeId, Shapes, TextShape};
use serde_json::{Map, Number, Value};

/// Checks a whole document, and returns its value as JSON. The value is complete only if no problem was found.
pub(super) fn checked(document: &DocumentValue, problems: &mut FoundProblems) -> Value {
    let shapes = Shapes::of_file();
    let mut checker = StructureChecker {
        shapes,
        problems,
        path: String::new(),
    };
    checker.value(document, shapes.root())
}

struct StructureChecker<'a> {
    shapes: &'static Shapes,
    problems: &'a mut FoundProblems,
    /// The path of the current key.
    path: String,
}

impl StructureChecker<'_> {
    fn value(&mut self, value: &DocumentValue, shape: ShapeId) -> Value {
        let shapes = self.shapes;
        match (shapes.get(shape), &value.content) {
            (_, DocumentContent::Null) => {
                self.problem(value, "has no value; write one, or remove the key".to_owned());
                Value::Null
            }
            (Shape::Either { text, .. }, DocumentContent::Text(_)) => self.value(value, *text),
            (Shape::Either { map, .. }, _) => self.value(value, *map),
            (Shape::Boolean, DocumentContent::Boolean(boolean)) => Value::Bool(*boolean),
            (Shape::Integer { min, max }, DocumentContent::Integer(number)) => {
                if !(*min..=*max).contains(number) {
                    self.problem(value, format!("expected a whole number from {min} to {max}"));
                }
                Value::from(*number)
            }
            (Shape::Text(shape), DocumentContent::Text(text)) => {
                self.text(value, text, shape);
                Value::from(text.as_str())
            }
            (Shape::Words(words), DocumentContent::Text(text)) => {
                if !words.contains(text) {
                    let near = name_hint(text, words.iter().map(String::as_str));
                    self.problem(
                        value,
                        format!("expected one of {}{}", words.join(", "), meant_only(&near)),
                    );
                }
                Value::from(text.as_str())
            }
            (Shape::Scalar { chars_max, .. }, DocumentContent::Text(text)) => {
                if text.chars().count() > *chars_max {
                    self.problem(value, format!("has more than {chars_max} characters"));
                }
                Value::from(text.as_str())
            }
            (Shape::Scalar { .. }, DocumentContent::Boolean(boolean)) => Value::Bool(*boolean),
            (Shape::Scalar { .. }, DocumentContent::Integer(number)) => Value::from(*number),
            (Shape::Scalar { .. }, DocumentContent::Number(number)) => {
                Number::from_f64(*number).map_or(Value::Null, Value::Number)
            }
            (Shape::List { item, min, max }, DocumentContent::List(items)) => {
                if items.len() < *min || items.len() > *max {
                    self.problem(
                        value,
                        format!("expected {min} to {max} entries, found {}", items.len()),
                    );
                    return Value::Null;
                }
                let items = items.iter().enumerate();
                let items = items.map(|(index, entry)| {
                    self.below(&format!("[{index}]"), |checker| checker.value(entry, *item))
                });
                Value::Array(items.collect())
            }
            (Shape::Map(shape), DocumentContent::Map(entries)) => self.map(value, entries, shape),
            (Shape::Fields(shape), DocumentContent::Map(entries)) => self.fields(value, entries, shape),
            (shape, content) => {
                let message = format!("expected {}, found {}", expected(shape), content.type_name());
                self.problem(value, message);
                Value::Null
            }
        }
    }

    fn text(&mut self, value: &DocumentValue, text: &str, shape: &TextShape) {
        let length = text.chars().take(shape.chars_max.saturating_add(1)).count();
        if text.contains('\0') {
            self.problem(value, "contains a NUL character; remove it".to_owned());
        } else if length > shape.chars_max {
            let mut message = format!("has more than {} characters", shape.chars_max);
            if shape.pattern.is_some() {
                message.push_str(&format!("; expected {}", shape.expected));
            }
            self.problem(value, message);
        } else if length < shape.chars_min
            || shape
                .pattern
                .as_ref()
                .is_some_and(|pattern| !pattern.is_match(text))
        {
            self.problem(value, format!("expected {}", expected_text(shape)));
        }
    }

    fn map(&mut self, value: &DocumentValue, entries: &[DocumentEntry], shape: &MapShape) -> Value {
        if entries.len() > shape.entries_max {
            let message = format!("has more than {} entries", shape.entries_max);
            self.problem(value, message);
            return Value::Null;
        }
        let mut checked = Map::new();
        for DocumentEntry { key, line, value } in entries {
            if self.problems.is_full() {
                break;
            }
            self.below(&format!(".{}", shown_name(key)), |checker| {
                if !shape.key.is_match(key) {
                    let path = checker.path.clone();
                    let message = format!("is no valid name here; expected {}", shape.expected_key);
                    checker.problems.add(*line, &path, message);
                }
                let value = checker.value(value, shape.value);
                checked.insert(key.clone(), value);
            });
        }
        Value::Object(checked)
    }

    fn fields(&mut self, value: &DocumentValue, entries: &[DocumentEntry], shape: &FieldsShape) -> Value {
        let mut checked = Map::new();
        for DocumentEntry { key, line, value } in entries {
            if self.problems.is_full() {
                break;
            }
            let name = match shape.fields.contains_key(key) {
                true => key.clone(),
                false => snake_case(key),
            };
            self.below(&format!(".{}", shown_name(&name)), |checker| {
                let path = checker.path.clone();
                let Some(field) = shape.fields.get(&name) else {
                    let mut known: Vec<&str> = shape.fields.keys().map(String::as_str).collect();
                    known.sort_unstable();
                    let hint = name_hint(&name, known);
                    return checker.problems.add(*line, &path, format!("unknown key{hint}"));
                };
                if checked.contains_key(&name) {
                    return checker.problems.add(
                        *line,
                        &path,
                        "is written twice, in two spellings; keep one of them",
                    );
                }
                let value = checker.value(value, *field);
                checked.insert(name.clone(), value);
            });
        }
        for name in shape.required.iter().filter(|name| !checked.contains_key(*name)) {
            self.below(&format!(".{name}"), |checker| {
                checker.problem(value, "is required".to_owned())
            });
        }
        let given = shape
            .alternatives
            .iter()
            .filter(|name| checked.contains_key(*name));
        if !shape.alternatives.is_empty() && given.count() != 1 {
            let message = format!("expected exactly one of {}", shape.alternatives.join(", "));
            self.problem(value, message);
        }
        Value::Object(checked)
    }

    /// Runs a check with a longer path.
    fn below<T>(&mut self, part: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        let part = if length == 0 {
            part.trim_start_matches('.')
        } else {
            part
        };
        self.path.push_str(part);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    fn problem(&mut self, value: &DocumentValue, message: String) {
        self.problems.add(value.line, &self.path, message);
    }
}

/// Returns the hint only if it names what was meant: the words are already listed.
fn meant_only(hint: &str) -> &str {
    if hint.starts_with("; did you mean") {
        hint
    } else {
        ""
    }
}

fn expected_text(shape: &TextShape) -> String {
    match (&shape.pattern, shape.chars_max) {
        (None, chars_max) if chars_max < usize::MAX => {
            format!("text of {} to {chars_max} characters", shape.chars_min)
        }
        (None, _) => "text".to_owned(),
        (Some(_), _) => shape.expected.clone(),
    }
}

fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Boolean => "true or false".to_owned(),
        Shape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Text(shape) => expected_text(shape),
        Shape::Words(words) => format!("one of {}", words.join(", ")),
        Shape::Scalar { expected, .. } => expected.clone(),
        Shape::List { .. } => "a list".to_owned(),
        Shape::Map(_) | Shape::Fields(_) => "a map".to_owned(),
        Shape::Either { .. } => "text or a map".to_owned(),
        Shape::Pending => "nothing".to_owned(),
    }
}
