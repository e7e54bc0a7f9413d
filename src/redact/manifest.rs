//! What the `Secret`s of a YAML or JSON text hold, by name. A text that is no YAML, such as a template, is read line by
//! line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use libyaml_safer::{Event, EventData, Parser};
use regex::Regex;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::LazyLock;

/// Nesting of one document.
const DEPTH_MAX: usize = 128;
/// Nodes that are looked at through aliases as well.
const VISITS_MAX: usize = 200_000;

#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and a test compiles it"
)]
static KIND: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"kind["']?\s*:\s*["']?Secret(?:List)?\b"#).expect("an expression compiles")
});

/// A line as YAML has it, and no program.
#[expect(
    clippy::expect_used,
    reason = "the expression is a constant, and a test compiles it"
)]
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^[ \t-]*["']?kind["']?:[ \t]+["']?Secret(?:List)?["']?[ \t\r]*(?:#.*)?$"#)
        .expect("an expression compiles")
});

/// An entry of a `Secret`: its name and its value as it is used.
pub(super) type Held = (String, String);

/// What the `Secret`s in a text hold.
pub(super) fn held(text: &str) -> Vec<Held> {
    let mut found = Vec::new();
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

/// True for Jsonnet. It is no document: what it makes is looked at when it is rendered.
fn is_program(text: &str) -> bool {
    let may_be = ["local ", "::", "function(", "import"]
        .iter()
        .any(|word| text.contains(word));
    may_be && !LINE.is_match(text) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
}

/// A node of a document. What an alias names is there once.
enum Node {
    Scalar(String),
    Sequence(Vec<Rc<Node>>),
    Mapping(Vec<(String, Rc<Node>)>),
}

struct Reader<'a, 'b> {
    parser: Parser<&'a mut &'b [u8]>,
    anchors: HashMap<String, Rc<Node>>,
}

/// Every document, or nothing where one is no YAML.
fn documents(text: &str) -> Option<Vec<Rc<Node>>> {
    let mut input = text.as_bytes();
    let mut parser = Parser::new();
    parser.set_input_string(&mut input);
    let mut reader = Reader {
        parser,
        anchors: HashMap::new(),
    };
    let mut documents = Vec::new();
    loop {
        match reader.event()?.data {
            EventData::StreamEnd => return Some(documents),
            EventData::DocumentStart { .. } => {
                reader.anchors.clear();
                let root = reader.event()?.data;
                documents.push(reader.node(root, 0)?);
            }
            _ => {}
        }
    }
}

impl Reader<'_, '_> {
    /// The parser gives up with a panic on some texts that are no YAML.
    fn event(&mut self) -> Option<Event> {
        catch_unwind(AssertUnwindSafe(|| self.parser.parse())).ok()?.ok()
    }

    fn node(&mut self, event: EventData, depth: usize) -> Option<Rc<Node>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let (anchor, node) = match event {
            EventData::Alias { anchor } => return self.anchors.get(&anchor).cloned(),
            EventData::Scalar { anchor, value, .. } => (anchor, Node::Scalar(value)),
            EventData::SequenceStart { anchor, .. } => (anchor, self.sequence(depth)?),
            EventData::MappingStart { anchor, .. } => (anchor, self.mapping(depth)?),
            _ => return None,
        };
        let node = Rc::new(node);
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        Some(node)
    }

    fn sequence(&mut self, depth: usize) -> Option<Node> {
        let mut items = Vec::new();
        loop {
            match self.event()?.data {
                EventData::SequenceEnd => return Some(Node::Sequence(items)),
                event => items.push(self.node(event, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Option<Node> {
        let mut fields = Vec::new();
        loop {
            let event = self.event()?.data;
            if event == EventData::MappingEnd {
                return Some(Node::Mapping(fields));
            }
            let key = self.node(event, depth + 1)?;
            let event = self.event()?.data;
            let field = self.node(event, depth + 1)?;
            match key.as_ref() {
                // What is merged stands for fields of its own.
                Node::Scalar(name) if name == "<<" => merge(&mut fields, &field),
                Node::Scalar(name) => fields.push((name.clone(), field)),
                Node::Sequence(_) | Node::Mapping(_) => {}
            }
        }
    }
}

fn merge(fields: &mut Vec<(String, Rc<Node>)>, merged: &Node) {
    match merged {
        Node::Mapping(more) => fields.extend(more.iter().cloned()),
        Node::Sequence(all) => all.iter().for_each(|one| merge(fields, one)),
        Node::Scalar(_) => {}
    }
}

fn visit(node: &Node, visits: &mut usize, found: &mut Vec<Held>) {
    let Some(left) = visits.checked_sub(1) else {
        return;
    };
    *visits = left;
    match node {
        Node::Scalar(_) => {}
        Node::Sequence(items) => items.iter().for_each(|item| visit(item, visits, found)),
        Node::Mapping(fields) => {
            match kind(fields) {
                Some("Secret") => secret(fields, visits, found),
                // Items of such a list need not say what they are.
                Some("SecretList") => {
                    let items = fields.iter().filter(|(name, _)| name == "items");
                    for (_, items) in items {
                        let Node::Sequence(items) = items.as_ref() else {
                            continue;
                        };
                        for item in items {
                            if let Node::Mapping(fields) = item.as_ref() {
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

fn kind(fields: &[(String, Rc<Node>)]) -> Option<&str> {
    let (_, kind) = fields.iter().find(|(name, _)| name == "kind")?;
    match kind.as_ref() {
        Node::Scalar(kind) => Some(kind),
        Node::Sequence(_) | Node::Mapping(_) => None,
    }
}

fn secret(fields: &[(String, Rc<Node>)], visits: &mut usize, found: &mut Vec<Held>) {
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

fn texts(name: &str, node: &Node, visits: &mut usize, found: &mut dyn FnMut(&str, &str)) {
    let Some(left) = visits.checked_sub(1) else {
        return;
    };
    *visits = left;
    match node {
        Node::Scalar(text) => found(name, text),
        Node::Sequence(items) => items.iter().for_each(|item| texts(name, item, visits, found)),
        Node::Mapping(fields) => fields
            .iter()
            .for_each(|(name, field)| texts(name, field, visits, found)),
    }
}

/// An entry of `data`: decoded where it is text in base64, and as it is written where it is not.
fn decoded(name: &str, text: &str) -> Held {
    let packed: String = text.split_ascii_whitespace().collect();
    let plain = STANDARD.decode(&packed).ok();
    let plain = plain.and_then(|plain| String::from_utf8(plain).ok());
    (name.to_owned(), plain.unwrap_or(packed))
}

/// The entries of documents that say they are a `Secret`, one a line.
fn by_lines(text: &str, found: &mut Vec<Held>) {
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

fn entries(document: &str, found: &mut Vec<Held>) {
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

/// A value without its quotes, or without the comment behind it.
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
    use super::held;

    fn names_and_values(text: &str) -> Vec<(String, String)> {
        held(text)
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
        // Aliases of aliases end.
        let mut bomb = String::from("kind: Secret\na0: &a0 [x]\n");
        for level in 1..30 {
            bomb.push_str(&format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1));
        }
        assert_eq!(names_and_values(&bomb), expected(&[]));
    }
}
