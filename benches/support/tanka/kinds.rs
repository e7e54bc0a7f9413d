//! The kinds of the generated library, read from `kinds.txt`. That file describes its own format.

use std::collections::HashMap;

const TEXT: &str = include_str!("kinds.txt");

/// A file of the library.
pub(super) struct LibraryKind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) file: &'static str,
    /// The name, or `None` for a kind that is only part of others.
    pub(super) name: Option<&'static str>,
    pub(super) fields: Vec<KindField>,
}

#[derive(Clone)]
pub(super) struct KindField {
    pub(super) name: &'static str,
    pub(super) shape: FieldShape,
}

/// The content of a field.
#[derive(Clone)]
pub(super) enum FieldShape {
    Text,
    Number,
    Boolean,
    List,
    Map,
    Object(Vec<KindField>),
}

/// Returns all kinds, in the order of groups and versions.
pub(super) fn all() -> Vec<LibraryKind> {
    let (mut parts, mut kinds) = (HashMap::new(), Vec::new());
    for line in TEXT.lines() {
        let Some((head, fields)) = line.split_once(": ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let fields = self::fields(&mut fields.split(' '), &parts);
        match head.split(' ').collect::<Vec<_>>()[..] {
            ["part", name] => drop(parts.insert(name, fields)),
            ["kind", group, version, file, name] => kinds.push(LibraryKind {
                group,
                version,
                file,
                name: (name != "-").then_some(name),
                fields,
            }),
            _ => panic!("neither a part nor a kind: {line}"),
        }
    }
    kinds
}

/// Parses fields up to the end, or to the closing parenthesis.
fn fields(
    words: &mut std::str::Split<'static, char>,
    parts: &HashMap<&'static str, Vec<KindField>>,
) -> Vec<KindField> {
    let mut found = Vec::new();
    while let Some(word) = words.next().filter(|word| *word != ")") {
        let (name, shape) = match word {
            _ if word.contains('=') => {
                let (name, part) = word.split_once('=').unwrap();
                (name, FieldShape::Object(parts[part].clone()))
            }
            _ if word.ends_with('(') => (word, FieldShape::Object(fields(words, parts))),
            _ if word.ends_with("[]") => (word, FieldShape::List),
            _ if word.ends_with("{}") => (word, FieldShape::Map),
            _ if word.ends_with('#') => (word, FieldShape::Number),
            _ if word.ends_with('?') => (word, FieldShape::Boolean),
            _ => (word, FieldShape::Text),
        };
        found.push(KindField {
            name: name.trim_end_matches(['(', '[', ']', '{', '}', '#', '?']),
            shape,
        });
    }
    found
}
