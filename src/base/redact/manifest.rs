//! Finds the entries of `Secret`s in a YAML or JSON text, by name. A text that is not valid YAML, such as a
//! template, is read line by line.

use super::document::{YamlNode, documents};
use super::program;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use std::rc::Rc;
use std::sync::LazyLock;

/// Maximum number of visited nodes, including those through aliases.
const VISITS_MAX: usize = 200_000;

#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and a test compiles it"
)]
static KIND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"kind["']?\s*:\s*["']?Secret(?:List)?\b"#).expect("an expression compiles")
});

/// A line that occurs in YAML but in no program.
#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and a test compiles it"
)]
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^[ \t-]*["']?kind["']?:[ \t]+["']?Secret(?:List)?["']?[ \t\r]*(?:#.*)?$"#)
        .expect("an expression compiles")
});

/// A file of a chart that a template reads.
#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and a test compiles it"
)]
static FILES_GET: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\.Files\.Get\s+["']([^"'\n]+)["']"#).expect("an expression compiles"));

/// An entry of a `Secret`: its name and its decoded value.
pub(super) type SecretEntry = (String, String);

/// Returns the entries of the `Secret`s in a text.
pub(super) fn secret_entries(text: &str) -> Vec<SecretEntry> {
    let mut found = Vec::new();
    if may_be_program(text) {
        found = program::find_secrets(text).entries;
    }
    if !text.contains("Secret") || !KIND.is_match(text) || is_program(text) {
        return found;
    }
    match documents(text) {
        Some(documents) => {
            let mut visits = VISITS_MAX;
            for document in documents {
                visit(&document, &mut visits, &mut found);
            }
        }
        None => by_lines(text, &mut found),
    }
    found
}

/// Returns the files that a text names for `Secret`s: in Jsonnet, in a kustomization, or in a chart template.
pub(super) fn files(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if may_be_program(text) {
        found = program::find_secrets(text).files;
    }
    if text.contains("secretGenerator") {
        for document in documents(text).unwrap_or_default() {
            generated(&document, &mut found);
        }
    }
    if text.contains(".Files.Get") && LINE.is_match(text) {
        let named = FILES_GET.captures_iter(text);
        found.extend(named.filter_map(|named| Some(named.get(1)?.as_str().to_owned())));
    }
    found
}

/// Returns the files of the generators in a kustomization: `name=file` or a file.
fn generated(document: &YamlNode, found: &mut Vec<String>) {
    let YamlNode::Mapping(fields) = document else {
        return;
    };
    for (_, generators) in fields.iter().filter(|(name, _)| name == "secretGenerator") {
        let YamlNode::Sequence(generators) = generators.as_ref() else {
            continue;
        };
        for generator in generators {
            let YamlNode::Mapping(fields) = generator.as_ref() else {
                continue;
            };
            let sources = fields
                .iter()
                .filter(|(name, _)| ["files", "envs", "env"].contains(&name.as_str()));
            for (_, source) in sources {
                texts("", source, &mut VISITS_MAX.clone(), &mut |_, file| {
                    let file = file.split_once('=').map_or(file, |(_, file)| file);
                    found.push(file.to_owned());
                });
            }
        }
    }
}

/// True for a text that may be Jsonnet and create a `Secret`.
fn may_be_program(text: &str) -> bool {
    let quoted = || text.contains("'Secret'") || text.contains("\"Secret\"");
    let made = || {
        ["secret.", "Secret(", "secret("]
            .iter()
            .any(|call| text.contains(call))
    };
    (quoted() || made()) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
}

/// True for Jsonnet. It is not parsed as a document. The literal `Secret`s in it are found here, and the computed
/// ones after rendering.
fn is_program(text: &str) -> bool {
    let may_be = ["local ", "::", "function(", "import"]
        .iter()
        .any(|word| text.contains(word));
    may_be && !LINE.is_match(text) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
}

fn visit(node: &YamlNode, visits: &mut usize, found: &mut Vec<SecretEntry>) {
    let Some(left) = visits.checked_sub(1) else {
        return;
    };
    *visits = left;
    match node {
        YamlNode::Scalar(_) => {}
        YamlNode::Sequence(items) => items.iter().for_each(|item| visit(item, visits, found)),
        YamlNode::Mapping(fields) => {
            match kind(fields) {
                Some("Secret") => secret(fields, visits, found),
                // Items of such a list may have no kind.
                Some("SecretList") => {
                    let items = fields.iter().filter(|(name, _)| name == "items");
                    for (_, items) in items {
                        let YamlNode::Sequence(items) = items.as_ref() else {
                            continue;
                        };
                        for item in items {
                            if let YamlNode::Mapping(fields) = item.as_ref() {
                                secret(fields, visits, found);
                            }
                        }
                    }
                }
                _ => {}
            }
            fields.iter().for_each(|(_, field)| visit(field, visits, found));
        }
    }
}

fn kind(fields: &[(String, Rc<YamlNode>)]) -> Option<&str> {
    let (_, kind) = fields.iter().find(|(name, _)| name == "kind")?;
    match kind.as_ref() {
        YamlNode::Scalar(kind) => Some(kind),
        YamlNode::Sequence(_) | YamlNode::Mapping(_) => None,
    }
}

fn secret(fields: &[(String, Rc<YamlNode>)], visits: &mut usize, found: &mut Vec<SecretEntry>) {
    for (name, entries) in fields {
        match name.as_str() {
            "data" => texts("", entries, visits, &mut |name, text| {
                found.push(decoded(name, text))
            }),
            "stringData" => texts("", entries, visits, &mut |name, text| {
                found.push((name.to_owned(), text.to_owned()));
            }),
            _ => {}
        }
    }
}

fn texts(name: &str, node: &YamlNode, visits: &mut usize, found: &mut dyn FnMut(&str, &str)) {
    let Some(left) = visits.checked_sub(1) else {
        return;
    };
    *visits = left;
    match node {
        YamlNode::Scalar(text) => found(name, text),
        YamlNode::Sequence(items) => items.iter().for_each(|item| texts(name, item, visits, found)),
        YamlNode::Mapping(fields) => fields
            .iter()
            .for_each(|(name, field)| texts(name, field, visits, found)),
    }
}

/// Decodes an entry of `data`, or returns it as written if it is not base64 of a text.
pub(super) fn decoded(name: &str, text: &str) -> SecretEntry {
    let packed: String = text.split_ascii_whitespace().collect();
    let plain = STANDARD.decode(&packed).ok();
    let plain = plain.and_then(|plain| String::from_utf8(plain).ok());
    (name.to_owned(), plain.unwrap_or(packed))
}

/// Returns the entries of documents with the kind `Secret`, with one entry per line.
fn by_lines(text: &str, found: &mut Vec<SecretEntry>) {
    for document in text.split("\n---") {
        let is_kind = |line: &str| {
            let kind = line.trim().strip_prefix("kind:").map(unquoted);
            kind == Some("Secret")
        };
        if document.lines().any(is_kind) {
            entries(document, found);
        }
    }
}

fn entries(document: &str, found: &mut Vec<SecretEntry>) {
    let mut section: Option<(usize, bool)> = None;
    for line in document.lines() {
        let indent = line.len() - line.trim_start().len();
        let entry = line.trim();
        if entry.is_empty() || entry.starts_with('#') {
            continue;
        }
        match entry {
            "data:" | "stringData:" => section = Some((indent, entry == "data:")),
            _ => match section {
                Some((outer, is_data)) if indent > outer => {
                    let Some((name, value)) = entry.split_once(':') else {
                        continue;
                    };
                    let (name, value) = (unquoted(name), unquoted(value));
                    found.push(match is_data {
                        true => decoded(name, value),
                        false => (name.to_owned(), value.to_owned()),
                    });
                }
                _ => section = None,
            },
        }
    }
}

/// Returns a value without its quotes or without the comment after it.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            return rest.split(quote).next().unwrap_or(rest);
        }
    }
    value.split(" #").next().unwrap_or(value).trim()
}

#[cfg(test)]
mod tests {
    use super::secret_entries;

    fn names_and_values(text: &str) -> Vec<(String, String)> {
        secret_entries(text)
    }

    fn expected(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_secret_is_read_however_its_yaml_is_written() {
        let text = "\
kind: ConfigMap
data: {level: info}
---
apiVersion: v1
kind: \"Secret\" # of the database
stringData:
  plain: one two # a comment
  'quoted': \"th\\x72ee\"
  next:
    four
  block: |
    five
    six
  flow: {deep: [seven]}
  anchor: &a eight
  alias: *a
data:
  encoded: bmluZQ==
  wrapped: |
    dGV
    u
  binary: /w==
---
kind: List
items:
- {kind: SecretList, items: [{stringData: {listed: eleven}}]}
- {kind: Template, objects: [{kind: Secret, data: {inner: dHdlbHZl}}]}
";
        assert_eq!(
            names_and_values(text),
            expected(&[
                ("plain", "one two"),
                ("quoted", "three"),
                ("next", "four"),
                ("block", "five\nsix\n"),
                ("deep", "seven"),
                ("anchor", "eight"),
                ("alias", "eight"),
                ("encoded", "nine"),
                ("wrapped", "ten"),
                ("binary", "/w=="),
                ("listed", "eleven"),
                ("inner", "twelve"),
            ])
        );
    }

    #[test]
    fn json_is_yaml_and_a_template_is_read_by_lines() {
        assert_eq!(
            names_and_values(r#"{"kind": "Secret", "data": {"a": "b25l"}}"#),
            expected(&[("a", "one")])
        );
        let template = "kind: Secret\nmetadata:\n  {{- include \"labels\" . | nindent 2 }}\ndata:\n  a: b25l # x\n  b: 'dHdv'\ntype: Opaque\n";
        assert_eq!(
            names_and_values(template),
            expected(&[("a", "one"), ("b", "two")])
        );
    }

    #[test]
    fn what_is_no_secret_holds_nothing() {
        for text in [
            "kind: ConfigMap\ndata: {Secret: yes}\n",
            "kind: SealedSecret\nspec: {encryptedData: {a: b}}\n",
            "kind: ExternalSecret\ndata: [{secretKey: a}]\n",
            "a Secret in prose {",
            "",
        ] {
            assert_eq!(names_and_values(text), expected(&[]), "{text}");
        }
        // Nested aliases end.
        let mut bomb = String::from("kind: Secret\na0: &a0 [x]\n");
        for level in 1..30 {
            bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
        }
        assert_eq!(names_and_values(&bomb), expected(&[]));
        // A walk through aliases has the same depth limit as one through brackets.
        let mut deep = String::from("kind: Secret\na0: &a0 [x]\n");
        for level in 1..60_000 {
            deep.push_str(&format!("a{level}: &a{level} [*a{}]\n", level - 1));
        }
        assert_eq!(names_and_values(&deep), expected(&[]));
        // Nested merges end as well.
        let mut bomb = String::from("kind: Secret\na0: &a0 {x: y}\n");
        for level in 1..30 {
            let before = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} {{<<: [{before}]}}\n"));
        }
        assert_eq!(names_and_values(&bomb), expected(&[]));
    }
}
