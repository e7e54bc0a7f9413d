//! A source text as an engine may read it: what the first engine would take in another way than the language is written
//! so that it takes it in the same way, or the text is refused. Places are found again in the text as it was written.

use super::edits::Edits;
use super::nesting::Look;
use super::syntax::{
    self, BinaryOperator, ForSpec, Kind, Node, NodeId, SyntaxError, SyntaxErrorKind, TextStyle, Tree,
    UnaryOperator,
};

/// The function that makes a text of a value as Go does, in the texts for the engines.
pub(super) const TEXT_FUNCTION: &str = "_drydock_text";

/// The findings of a look at a text that is to be evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The depth to which brackets nest.
    pub(super) depth: usize,
    /// True for a doubtful text that is nested deeper than our parser has stack for: nobody knows what it says.
    pub(super) is_too_deep: bool,
    /// The reason why the language refuses it, where one of the engines might not.
    pub(super) refused: Option<SyntaxError>,
    /// What is written in another way for the first engine.
    pub(super) first: Edits,
    /// What is written in another way for the second engine, which reads most of it as the language has it.
    pub(super) second: Edits,
}

impl Reading {
    /// Looks at a text. It is parsed only where something is doubtful, here, as deep as there is stack for.
    pub(super) fn of(source: &[u8], depth_max: usize) -> Self {
        let look = Look::at(source);
        let mut reading = Self {
            depth: look.depth,
            ..Self::default()
        };
        for body in look.misread {
            reading.first.blank(source, body);
        }
        if look.is_doubtful
            && let Ok(text) = std::str::from_utf8(source)
        {
            match syntax::parse_within(text, depth_max).and_then(|tree| reading.edit(&tree)) {
                Err(error) if error.kind == SyntaxErrorKind::Invalid => reading.refused = Some(error),
                Err(_) => reading.is_too_deep = true,
                Ok(()) => {}
            }
        }
        reading.first.sort();
        reading.second.sort();
        reading
    }

    /// Writes in another way what an engine takes otherwise. The `Err` is a string that the language refuses.
    fn edit(&mut self, tree: &Tree<'_>) -> Result<(), SyntaxError> {
        let may_add = !tree.text.contains(TEXT_FUNCTION);
        let (texts, calls) = (texts(tree), calls(tree));
        for node in &tree.nodes {
            match &node.kind {
                Kind::Binary {
                    left,
                    operator: BinaryOperator::Multiply | BinaryOperator::Divide | BinaryOperator::Modulo,
                    right,
                    ..
                } => {
                    if inverts_bits(tree, *left) {
                        self.first.around(tree.node(*left), "(");
                    }
                    if let Kind::Unary { .. } = tree.node(*right).kind {
                        self.first.around(tree.node(*right), "(");
                    }
                }
                Kind::Binary {
                    left,
                    operator: BinaryOperator::Plus,
                    right,
                    ..
                } if may_add => {
                    let is_text = |id: NodeId| texts.get(id.index()) == Some(&true);
                    let added = match (is_text(*left), is_text(*right)) {
                        (true, false) => *right,
                        (false, true) => *left,
                        _ => continue,
                    };
                    // What calls itself would need more depth.
                    if calls.get(added.index()) == Some(&true) {
                        continue;
                    }
                    let added = tree.node(added);
                    let call = format!("{TEXT_FUNCTION}(");
                    self.first.around(added, &call);
                    self.second.around(added, &call);
                }
                Kind::ArrayComprehension { body, specs, .. } if is_outer_name(tree, *body, specs) => {
                    self.first.insert(tree.node(*body).span.start, "assert true; ");
                }
                Kind::Import { file, .. } => {
                    let file = tree.node(*file);
                    if let Kind::Text {
                        style: TextStyle::Block,
                        ..
                    } = file.kind
                    {
                        let why = "Block string literals not allowed in imports".to_owned();
                        return Err(SyntaxError::invalid(tree.text, file.span, why));
                    }
                }
                Kind::Text { style, value, .. } if style.keeps_escapes() => {
                    if let Some(text) = text(tree, node, value)? {
                        self.first.replace(node, &text);
                        self.second.replace(node, &text);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// For each node of a tree, whether its value is a text if it has one.
fn texts(tree: &Tree<'_>) -> Vec<bool> {
    let mut texts: Vec<bool> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        // Children come before their parents.
        let is_text = |id: &NodeId| texts.get(id.index()) == Some(&true);
        let text = match &node.kind {
            Kind::Text { .. } => true,
            Kind::Parens { inner, .. } => is_text(inner),
            Kind::Binary {
                left,
                operator: BinaryOperator::Plus,
                right,
                ..
            } => is_text(left) || is_text(right),
            Kind::Binary {
                left,
                operator: BinaryOperator::Modulo,
                ..
            } => is_text(left),
            _ => false,
        };
        texts.push(text);
    }
    texts
}

/// For each node of a tree, whether it has a call that may lead back to it: one of anything but the standard library.
fn calls(tree: &Tree<'_>) -> Vec<bool> {
    let mut calls: Vec<bool> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        let mut has_call = match &node.kind {
            Kind::Apply(apply) => !is_standard(tree, apply.target),
            _ => false,
        };
        // Children come before their parents.
        syntax::each_child(&node.kind, &mut |child| {
            has_call |= calls.get(child.index()) == Some(&true);
        });
        calls.push(has_call);
    }
    calls
}

/// True for `std.name`.
fn is_standard(tree: &Tree<'_>, id: NodeId) -> bool {
    match tree.node(id).kind {
        Kind::Member { target, .. } => matches!(tree.node(target).kind, Kind::Variable("std")),
        _ => false,
    }
}

/// True for a body of a comprehension that is a name and none of its own: the first engine looks for it in the wrong
/// place where a condition uses another name (`[a for x in xs if b]` is a list of `b`).
fn is_outer_name(tree: &Tree<'_>, body: NodeId, specs: &[ForSpec<'_>]) -> bool {
    let mut body = body;
    while let Kind::Parens { inner, .. } = tree.node(body).kind {
        body = inner;
    }
    match &tree.node(body).kind {
        Kind::Variable(name) => specs.iter().all(|spec| spec.variable != *name),
        Kind::SelfObject | Kind::Dollar => true,
        _ => false,
    }
}

/// True for `~e`, also behind other operators.
fn inverts_bits(tree: &Tree<'_>, id: NodeId) -> bool {
    let mut id = id;
    while let Kind::Unary { operator, operand } = tree.node(id).kind {
        if operator == UnaryOperator::BitNot {
            return true;
        }
        id = operand;
    }
    false
}

/// A string with an escape that an engine does not know, written in another way.
fn text(tree: &Tree<'_>, node: &Node<'_>, written: &str) -> Result<Option<String>, SyntaxError> {
    let meaning = syntax::unescape(written).map_err(|why| SyntaxError::invalid(tree.text, node.span, why))?;
    let bytes = written.as_bytes();
    let is_odd = |(at, _): (usize, &str)| matches!(bytes.get(at + 1), Some(b'/' | b'u'));
    let is_odd = written.match_indices('\\').any(is_odd);
    Ok(is_odd.then(|| format!("\"{}\"", syntax::escape(&meaning, '"'))))
}

#[cfg(test)]
mod tests {
    use super::Reading;
    use crate::jsonnet::syntax;

    const DEPTH: usize = 40;

    fn harmless(source: &str) -> String {
        let source = source.as_bytes();
        String::from_utf8_lossy(&Reading::of(source, DEPTH).first.rewritten(source)).into_owned()
    }

    #[test]
    fn a_comment_that_would_be_misread_is_blanked_where_it_stands() {
        for (source, blanked) in [
            (
                "{ /* x **/ a: 1, /* y */ b: 2 }",
                "{ /*    */ a: 1, /* y */ b: 2 }",
            ),
            ("/***/ 1", "/* */ 1"),
            ("/****/ 1", "/****/ 1"),
            ("/**/ 1", "/**/ 1"),
            ("/*****/ 1", "/*   */ 1"),
            ("/* *\n **/ 1", "/*  \n  */ 1"),
            ("// a\r b\n1", "//     \n1"),
            ("# a\r\n1", "# a\r\n1"),
            ("# \u{e9}\r b", "#      "),
            ("'/* x **/' + @'/***/'", "'/* x **/' + @'/***/'"),
            ("|||\n  /***/\n|||", "|||\n  /***/\n|||"),
            ("/* x **", "/* x **"),
        ] {
            assert_eq!(harmless(source), blanked, "{source}");
        }
    }

    #[test]
    fn what_binds_in_another_way_is_put_in_parentheses() {
        for (source, expected) in [
            ("~2*3", "(~2)*3"),
            ("3 * ~2 % 4", "3 * (~2) % 4"),
            ("-~ /* **/ 2 / 4", "(-~ /*  */ 2) / 4"),
            ("~a.b[1](c) % 4", "(~a.b[1](c)) % 4"),
            ("~2 + 3 * 4", "~2 + 3 * 4"),
            ("1 / -2 / 4", "1 / (-2) / 4"),
            ("'%s' % 'x' - 1", "'%s' % 'x' - 1"),
            ("'a' + b", "'a' + _drydock_text(b)"),
            ("a.b + 'c'", "_drydock_text(a.b) + 'c'"),
            (
                "'a' + f(b) + std.max(c, d)",
                "'a' + f(b) + _drydock_text(std.max(c, d))",
            ),
            (
                "a + 'b' + c + |||\n  d\n|||",
                "_drydock_text(a) + 'b' + _drydock_text(c) + |||\n  d\n|||",
            ),
            (
                "a + ('b' + c) + if d then e",
                "_drydock_text(a) + ('b' + _drydock_text(c)) + _drydock_text(if d then e)",
            ),
            (
                "a + '%d' % b + c",
                "_drydock_text(a) + '%d' % b + _drydock_text(c)",
            ),
            (
                "{ 'a'+: 1, b: c + d } + ['e' + 'f']",
                "{ 'a'+: 1, b: c + d } + ['e' + 'f']",
            ),
            ("-2 * 3", "-2 * 3"),
            ("3 * ~if x then y else 4 * ~5", "3 * (~if x then y else 4 * (~5))"),
            ("'~2*3'", "'~2*3'"),
            ("[a for x in y if b]", "[assert true; a for x in y if b]"),
            ("[ ((self)), for x in y]", "[ assert true; ((self)), for x in y]"),
            ("[ /* a */ $ for x in y]", "[ /* a */ assert true; $ for x in y]"),
            (
                "[x for x in y for z in x] + [x.a for y in z]",
                "[x for x in y for z in x] + [x.a for y in z]",
            ),
            ("'a\\/b' + '\\u00e9'", "\"a/b\" + \"\u{e9}\""),
            ("'\\ud800\\ud800\\n'", "\"\u{fffd}\\n\""),
            ("'\\ud83d\\ude00'", "\"\u{1f600}\""),
            ("'\\\\/'", "'\\\\/'"),
        ] {
            assert_eq!(harmless(source), expected, "{source}");
        }
    }

    #[test]
    fn what_the_language_refuses_is_refused_where_an_engine_might_not() {
        for source in [
            "{ a: : 1 }",
            "{ a + : 1 }",
            "{ a+ :: 1 }",
            "local a = 1,; a",
            "local; 1",
            "1==-1",
            "true&&!false",
            "$*2",
            "import ('x')",
            "import |||\n  x\n|||",
            "importstr 'x' + 'y'",
            "{ a: super }",
            "super",
            "'\\x41'",
            "{ x: 1 for y in [] }",
        ] {
            assert!(
                Reading::of(source.as_bytes(), DEPTH).refused.is_some(),
                "{source}"
            );
        }
        for source in [
            "{ a: 1, b+: 2, c:: 3, d+:: 4, e::: 5, f+::: 6, g:-1, h:!true, i:$.a, j: -$.a }",
            "local a = 1, b = -1; a-b+-1<-2",
            "[1, 2][0: :1]",
            "[1, 2][::1] + [import 'x', importstr @'y', (importbin \"z\").a]",
            "{ a: super.b, c: super['d'], e: 'f' in super, superb: 1, importer: 2 }",
            "{ [y]: 1 for y in [] }",
        ] {
            let refused = Reading::of(source.as_bytes(), DEPTH).refused;
            assert_eq!(
                refused.is_some(),
                syntax::parse(source).is_err(),
                "{source}: {refused:?}"
            );
        }
    }

    #[test]
    fn a_place_is_found_again_in_the_text_as_it_was_written() {
        let source = "/* a **/ 'x\\/' + ~2*3 + y";
        let reading = Reading::of(source.as_bytes(), DEPTH);
        let there = reading.first.rewritten(source.as_bytes());
        let there = std::str::from_utf8(&there).unwrap_or_default();
        assert_eq!(
            there,
            "/*    */ \"x/\" + _drydock_text((~2)*3) + _drydock_text(y)"
        );
        for token in ["/*", "+", "~", "2", "*3", "3"] {
            let place = |text: &str| text.find(token).unwrap_or(usize::MAX);
            assert_eq!(reading.first.written(place(there)), place(source), "{token}");
        }
        let last = |text: &str| text.rfind('y').unwrap_or(usize::MAX);
        assert_eq!(reading.first.written(last(there)), last(source));
        assert_eq!(reading.first.written(there.len()), source.len());
        assert_eq!(reading.first.written(9), 9);
    }
}
