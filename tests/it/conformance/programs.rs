//! Jsonnet programs generated from a seed. Nearly all have a value, and they use the operators and most of the standard
//! library. Fractions are never converted to text, because the engines are known to write fewer digits than go-jsonnet.
//! `%e` is never used, because go-jsonnet formats powers of ten wrongly (`10.000000e+02`).

use super::program_forms::{ExpressionType, INT_FORMS, INTS_FORMS, TEXT_FORMS, TEXTS_FORMS, TRUTH_FORMS};
use super::random::SourceRandom;

const KINDS: [ExpressionType; 7] = [
    ExpressionType::Int,
    ExpressionType::Number,
    ExpressionType::Text,
    ExpressionType::Truth,
    ExpressionType::Ints,
    ExpressionType::Texts,
    ExpressionType::Object,
];

pub(super) fn generate_program(seed: u64) -> String {
    let mut writer = ProgramWriter {
        random: SourceRandom::new(seed ^ 0xE7A1),
        scope: Vec::new(),
        names: 0,
    };
    let depth = 2 + writer.random.below(4);
    let kinds: Vec<ExpressionType> = (0..2).map(|_| writer.kind()).collect();
    let values: Vec<String> = kinds.iter().map(|kind| writer.make(*kind, depth)).collect();
    format!("local root = [{}];\n[root[0], root[1]]\n", values.join(",\n  "))
}

struct ProgramWriter {
    random: SourceRandom,
    /// The names in scope.
    scope: Vec<(String, ExpressionType)>,
    names: usize,
}

/// Fills generated parts into a template: each `#` stands for the next one.
fn fill(form: &str, parts: &[String]) -> String {
    let mut parts = parts.iter();
    let filled = form.split('#').enumerate().map(|(place, piece)| match place {
        0 => piece.to_owned(),
        _ => format!("{}{piece}", parts.next().map_or("null", String::as_str)),
    });
    filled.collect()
}

impl ProgramWriter {
    fn kind(&mut self) -> ExpressionType {
        KINDS[self.random.below(KINDS.len())]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// Generates an expression of this type.
    fn make(&mut self, kind: ExpressionType, depth: usize) -> String {
        if depth == 0 || self.random.one_in(8) {
            return self.simple(kind);
        }
        if self.random.one_in(150) {
            return "error 'made'".to_owned();
        }
        match self.random.below(9) {
            0 => self.with_local(kind, depth - 1),
            1 => self.with_function(kind, depth - 1),
            2 => {
                let parts = [ExpressionType::Truth, kind, kind].map(|kind| self.make(kind, depth - 1));
                fill("(if # then # else #)", &parts)
            }
            3 if kind != ExpressionType::Object => self.field(kind, depth - 1),
            _ => self.of_form(kind, depth - 1),
        }
    }

    fn with_local(&mut self, kind: ExpressionType, depth: usize) -> String {
        let (name, of) = (self.name(), self.kind());
        let value = self.make(of, depth);
        self.scope.push((name.clone(), of));
        let body = self.make(kind, depth);
        self.scope.pop();
        format!("(local {name} = {value}; {body})")
    }

    fn with_function(&mut self, kind: ExpressionType, depth: usize) -> String {
        let (name, of) = (self.name(), self.kind());
        let (argument, default) = (self.make(of, depth), self.simple(of));
        self.scope.push((name.clone(), of));
        let body = self.make(kind, depth);
        self.scope.pop();
        match self.random.below(3) {
            0 => format!("(function({name}={default}) {body})()"),
            1 => format!("(function({name}) {body})({name}={argument})"),
            _ => format!("(function({name}, other={name}) {body})({argument})"),
        }
    }

    /// Generates a field of an object, which may refer to other fields and to the overridden field.
    fn field(&mut self, kind: ExpressionType, depth: usize) -> String {
        let (first, second) = (self.make(kind, depth), self.make(kind, depth));
        match self.random.below(6) {
            0 => format!("{{ a: {first}, b: self.a }}.b"),
            1 => format!("({{ a: {first} }} + {{ a: {second} }}).a"),
            2 => format!("({{ a: {first}, b:: self.a }} + {{ a: {second}, c: super.b }}).c"),
            3 => format!("{{ local x = {first}, a: {{ b: {{ c: x, d: $.a.b.c }} }} }}.a.b.d"),
            4 => format!("({{ f(x):: x, a: self.f({first}) }} + {{ b: super.a }})['b']"),
            _ => format!("{{ assert std.type(self.a) != 'null', a: {first} }}.a"),
        }
    }

    fn simple(&mut self, kind: ExpressionType) -> String {
        let known: Vec<String> = self
            .scope
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && !self.random.one_in(3) {
            return known[self.random.below(known.len())].clone();
        }
        let from: &[&str] = match kind {
            ExpressionType::Int => &["0", "1", "2", "3", "7", "10", "-1", "-4", "42", "255", "1000"],
            ExpressionType::Number => &[
                "0.5",
                "1.25",
                "-2.75",
                "1e3",
                "0.1",
                "3.14159",
                "1e-3",
                "123456.789",
                "2",
            ],
            ExpressionType::Text => &[
                "''",
                "'a'",
                "'Hello, World'",
                "\"tab\\there\"",
                "'é€😀'",
                "'a,b,,c'",
                "'  pad '",
                "'Zz\\u00e9'",
                "'line\\nbreak'",
                "'$HOME \\'q\\' <&>'",
                "'0x1F'",
                "'true'",
                "@'back\\slash'",
                "'- x: y'",
            ],
            ExpressionType::Truth => &["true", "false"],
            ExpressionType::Ints => &["[]", "[1]", "[3, 1, 2]", "[5, 5, 4, -1, 5]", "[0, 10, 100]"],
            ExpressionType::Texts => &[
                "[]",
                "['a']",
                "['b', 'a', 'c']",
                "['x', 'x', '']",
                "['é', 'z', 'Z']",
            ],
            ExpressionType::Object => &[
                "{}",
                "{ a: 1 }",
                "{ b: 'x', a: [1, 2] }",
                "{ a: 1, h:: 2 }",
                "{ 'key with space': null, z: true }",
                "{ a: { b: { c: 1 } } }",
                "{ a+: 1 }",
                "{ ['k' + 1]: 2, [null]: 3 }",
            ],
        };
        self.random.pick(from).to_owned()
    }

    fn of_form(&mut self, kind: ExpressionType, depth: usize) -> String {
        use ExpressionType::{Int, Ints, Number, Object, Text, Texts, Truth};
        let forms: &[(&str, &[ExpressionType])] = match kind {
            Int => INT_FORMS,
            Number => &[
                ("(# + #)", &[Number, Int]),
                ("(# - #)", &[Number, Number]),
                ("(# * #)", &[Number, Number]),
                ("(# / (# + 0.5))", &[Number, Int]),
                ("(-#)", &[Number]),
                ("std.abs(#)", &[Number]),
                ("std.max(#, #)", &[Number, Number]),
                ("std.min(#, #)", &[Number, Int]),
                ("std.clamp(#, -2, 2)", &[Number]),
                ("std.sqrt(std.abs(#))", &[Number]),
                ("(# % 7)", &[Number]),
                ("std.foldl(function(a, x) a + x / 2, #, 0)", &[Ints]),
                ("std.parseJson('[1.5, #]')[0]", &[Int]),
            ],
            Text => TEXT_FORMS,
            Truth => TRUTH_FORMS,
            Ints => INTS_FORMS,
            Texts => TEXTS_FORMS,
            Object => &[
                ("(# + #)", &[Object, Object]),
                ("{ a: #, b+: { c: # } }", &[Int, Text]),
                ("(# + { a+: { x: # } })", &[Object, Int]),
                ("({ a: { x: # } } + { a+: { y: super.x } })", &[Int]),
                ("{ [x]: # for x in # }", &[Int, Texts]),
                ("{ ['k%d' % x]: x * 2 for x in # if x > 1 }", &[Ints]),
                ("std.mergePatch(#, #)", &[Object, Object]),
                ("std.mapWithKey(function(k, v) k + std.type(v), #)", &[Object]),
                ("std.prune({ a: #, b: #, c: null })", &[Texts, Object]),
                ("std.objectRemoveKey(#, 'a')", &[Object]),
                ("{ local y = #, a: y, assert self.a == y : 'never' }", &[Int]),
                ("{ a: #, b: $.a, c: { d: $.b } }", &[Text]),
                (
                    "{ visible: #, hidden:: 1, forced::: 2 } { hidden::: 3 }",
                    &[Truth],
                ),
                (
                    "std.foldl(function(o, k) o + { [k]: std.length(k) }, #, {})",
                    &[Texts],
                ),
                ("std.parseJson(std.manifestJson(#))", &[Object]),
                ("std.parseYaml(std.manifestYamlDoc(#))", &[Object]),
            ],
        };
        let (form, kinds) = forms[self.random.below(forms.len())];
        let parts: Vec<String> = kinds.iter().map(|kind| self.make(*kind, depth)).collect();
        fill(form, &parts)
    }
}
