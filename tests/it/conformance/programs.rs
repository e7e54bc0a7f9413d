//! Jsonnet programs made from a seed: nearly all have a value, and what they compute goes through the
//! operators and most of the standard library. Fractions are never made into text, where the engines
//! are known to write fewer digits than go-jsonnet, and nothing is formatted with `%e`, which go-jsonnet
//! gets wrong for powers of ten (`10.000000e+02`).

use super::sources::Random;

/// The type of value an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Int,
    Number,
    Text,
    Truth,
    Ints,
    Texts,
    Object,
}

const KINDS: [Kind; 7] = [
    Kind::Int,
    Kind::Number,
    Kind::Text,
    Kind::Truth,
    Kind::Ints,
    Kind::Texts,
    Kind::Object,
];

/// A program.
pub(super) fn program(seed: u64) -> String {
    let mut writer = Writer {
        random: Random::new(seed ^ 0xE7A1),
        scope: Vec::new(),
        names: 0,
    };
    let depth = 2 + writer.random.below(4);
    let kinds: Vec<Kind> = (0..2).map(|_| writer.kind()).collect();
    let values: Vec<String> = kinds.iter().map(|kind| writer.make(*kind, depth)).collect();
    format!("local root = [{}];\n[root[0], root[1]]\n", values.join(",\n  "))
}

struct Writer {
    random: Random,
    /// Names that mean something here.
    scope: Vec<(String, Kind)>,
    names: usize,
}

/// Puts made parts into a form: `#` stands for the next one.
fn fill(form: &str, parts: &[String]) -> String {
    let mut parts = parts.iter();
    let filled = form.split('#').enumerate().map(|(place, piece)| match place {
        0 => piece.to_owned(),
        _ => format!("{}{piece}", parts.next().map_or("null", String::as_str)),
    });
    filled.collect()
}

impl Writer {
    fn kind(&mut self) -> Kind {
        KINDS[self.random.below(KINDS.len())]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    /// An expression of this kind.
    fn make(&mut self, kind: Kind, depth: usize) -> String {
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
                let parts = [Kind::Truth, kind, kind].map(|kind| self.make(kind, depth - 1));
                fill("(if # then # else #)", &parts)
            }
            3 if kind != Kind::Object => self.field(kind, depth - 1),
            _ => self.of_form(kind, depth - 1),
        }
    }

    fn with_local(&mut self, kind: Kind, depth: usize) -> String {
        let (name, of) = (self.name(), self.kind());
        let value = self.make(of, depth);
        self.scope.push((name.clone(), of));
        let body = self.make(kind, depth);
        self.scope.pop();
        format!("(local {name} = {value}; {body})")
    }

    fn with_function(&mut self, kind: Kind, depth: usize) -> String {
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

    /// A field of an object, where it refers to other fields and to what it overrides.
    fn field(&mut self, kind: Kind, depth: usize) -> String {
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

    fn simple(&mut self, kind: Kind) -> String {
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
            Kind::Int => &["0", "1", "2", "3", "7", "10", "-1", "-4", "42", "255", "1000"],
            Kind::Number => &[
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
            Kind::Text => &[
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
            Kind::Truth => &["true", "false"],
            Kind::Ints => &["[]", "[1]", "[3, 1, 2]", "[5, 5, 4, -1, 5]", "[0, 10, 100]"],
            Kind::Texts => &[
                "[]",
                "['a']",
                "['b', 'a', 'c']",
                "['x', 'x', '']",
                "['é', 'z', 'Z']",
            ],
            Kind::Object => &[
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

    fn of_form(&mut self, kind: Kind, depth: usize) -> String {
        use Kind::{Int, Ints, Number, Object, Text, Texts, Truth};
        let forms: &[(&str, &[Kind])] = match kind {
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

const INT_FORMS: &[(&str, &[Kind])] = &[
    ("(# + #)", &[Kind::Int, Kind::Int]),
    ("(# - #)", &[Kind::Int, Kind::Int]),
    ("(# * (# % 10))", &[Kind::Int, Kind::Int]),
    ("(# % 13)", &[Kind::Int]),
    ("((# % 1000) & 255)", &[Kind::Int]),
    ("((# % 1000) | 3)", &[Kind::Int]),
    ("((# % 1000) ^ (# % 1000))", &[Kind::Int, Kind::Int]),
    ("(std.abs(# % 1000) << 2)", &[Kind::Int]),
    ("(std.abs(# % 1000) >> 1)", &[Kind::Int]),
    ("(~(# % 1000))", &[Kind::Int]),
    ("std.floor(#)", &[Kind::Number]),
    ("std.ceil(#)", &[Kind::Number]),
    ("std.round(#)", &[Kind::Number]),
    ("std.length(#)", &[Kind::Text]),
    ("std.length(#)", &[Kind::Ints]),
    ("std.length(#)", &[Kind::Object]),
    ("std.sum(#)", &[Kind::Ints]),
    ("std.count(#, 5)", &[Kind::Ints]),
    ("std.foldr(function(x, a) a - x, #, 1)", &[Kind::Ints]),
    ("std.codepoint((# + 'q')[0])", &[Kind::Text]),
    ("std.parseInt('-' + std.abs(#))", &[Kind::Int]),
    ("std.parseHex('fF')", &[]),
    ("std.parseOctal('17')", &[]),
    ("(# + [9])[0]", &[Kind::Ints]),
    ("std.sign(#)", &[Kind::Int]),
    ("std.get(#, 'zz', #)", &[Kind::Object, Kind::Int]),
    ("std.exponent(#)", &[Kind::Number]),
    ("std.minArray(# + [0])", &[Kind::Ints]),
    ("std.maxArray(# + [0])", &[Kind::Ints]),
];

const TEXT_FORMS: &[(&str, &[Kind])] = &[
    ("(# + #)", &[Kind::Text, Kind::Text]),
    ("(# + #)", &[Kind::Text, Kind::Int]),
    ("(# + #)", &[Kind::Text, Kind::Object]),
    ("('' + #)", &[Kind::Ints]),
    ("std.toString(#)", &[Kind::Object]),
    ("std.asciiUpper(#)", &[Kind::Text]),
    ("std.asciiLower(#)", &[Kind::Text]),
    ("std.substr(#, 1, 3)", &[Kind::Text]),
    ("#[1:]", &[Kind::Text]),
    ("#[::2]", &[Kind::Text]),
    ("std.strReplace(#, 'a', #)", &[Kind::Text, Kind::Text]),
    ("std.join(', ', #)", &[Kind::Texts]),
    ("std.lines(#)", &[Kind::Texts]),
    ("std.resolvePath('a/b', #)", &[Kind::Text]),
    ("std.join('-', std.map(std.toString, #))", &[Kind::Ints]),
    ("std.repeat(#, 3)", &[Kind::Text]),
    ("std.stripChars(#, ' a')", &[Kind::Text]),
    ("std.lstripChars(#, ' Hé')", &[Kind::Text]),
    ("std.rstripChars(#, 'dc ')", &[Kind::Text]),
    ("std.trim(#)", &[Kind::Text]),
    ("std.char(64 + std.abs(# % 50))", &[Kind::Int]),
    ("std.type(#)", &[Kind::Object]),
    ("std.escapeStringJson(#)", &[Kind::Text]),
    ("std.escapeStringPython(#)", &[Kind::Text]),
    ("std.escapeStringBash(#)", &[Kind::Text]),
    ("std.escapeStringDollars(#)", &[Kind::Text]),
    ("std.escapeStringXML(#)", &[Kind::Text]),
    ("std.base64(#)", &[Kind::Text]),
    (
        "std.base64Decode(std.base64(std.asciiLower('abc' + #)))",
        &[Kind::Int],
    ),
    ("std.md5(#)", &[Kind::Text]),
    ("std.sha1(#)", &[Kind::Text]),
    ("std.sha256(#)", &[Kind::Text]),
    ("std.sha512(#)", &[Kind::Text]),
    ("std.sha3(#)", &[Kind::Text]),
    ("std.manifestJson(#)", &[Kind::Object]),
    ("std.manifestJsonMinified(#)", &[Kind::Object]),
    ("std.manifestJsonEx(#, '\\t')", &[Kind::Object]),
    ("std.manifestYamlDoc(#)", &[Kind::Object]),
    (
        "std.manifestYamlDoc(#, indent_array_in_object=true, quote_keys=false)",
        &[Kind::Object],
    ),
    ("std.manifestYamlStream([#, #])", &[Kind::Object, Kind::Ints]),
    ("std.manifestPython(#)", &[Kind::Object]),
    ("std.manifestPythonVars(#)", &[Kind::Object]),
    (
        "std.manifestIni({ main: { a: # }, sections: { s: { b: # } } })",
        &[Kind::Text, Kind::Texts],
    ),
    (
        "std.manifestXmlJsonml(['t', { a: # }, #])",
        &[Kind::Text, Kind::Text],
    ),
    ("std.decodeUTF8(std.encodeUTF8(#))", &[Kind::Text]),
    ("'%s and %s' % [#, #]", &[Kind::Text, Kind::Int]),
    (
        "'%d|%5d|%-5d|%05d|%+d' % [#, #, #, #, #]",
        &[Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Int],
    ),
    (
        "'%x %X %o' % [std.abs(#), std.abs(#), std.abs(#)]",
        &[Kind::Int, Kind::Int, Kind::Int],
    ),
    ("'%.2f %8.3f' % [#, #]", &[Kind::Number, Kind::Number]),
    ("'%(a)s %(b)d %%' % { a: #, b: # }", &[Kind::Text, Kind::Int]),
    ("'%s' % [#]", &[Kind::Object]),
    ("std.format('%10s|%-10s', [#, #])", &[Kind::Text, Kind::Truth]),
    ("|||\n  text: %s\n    more\n||| % #", &[Kind::Int]),
];

const TRUTH_FORMS: &[(&str, &[Kind])] = &[
    ("(# < #)", &[Kind::Number, Kind::Number]),
    ("(# <= #)", &[Kind::Text, Kind::Text]),
    ("(# > #)", &[Kind::Ints, Kind::Ints]),
    ("(# == #)", &[Kind::Object, Kind::Object]),
    ("(# != #)", &[Kind::Texts, Kind::Texts]),
    ("(# && #)", &[Kind::Truth, Kind::Truth]),
    ("(# || #)", &[Kind::Truth, Kind::Truth]),
    ("(!#)", &[Kind::Truth]),
    ("('a' in #)", &[Kind::Object]),
    ("std.member(#, 5)", &[Kind::Ints]),
    ("std.member(#, 'a')", &[Kind::Text]),
    ("std.startsWith(#, 'a')", &[Kind::Text]),
    ("std.endsWith(#, 'c')", &[Kind::Text]),
    ("std.objectHas(#, 'a')", &[Kind::Object]),
    ("std.objectHasAll(#, 'h')", &[Kind::Object]),
    ("std.all([# > 1, #])", &[Kind::Int, Kind::Truth]),
    ("std.any(std.map(function(x) x > 2, #))", &[Kind::Ints]),
    ("std.isString(#)", &[Kind::Int]),
    ("std.isArray(#)", &[Kind::Texts]),
    ("std.isEmpty(#)", &[Kind::Text]),
    ("std.equalsIgnoreCase(#, #)", &[Kind::Text, Kind::Text]),
    ("std.setMember(3, std.set(#))", &[Kind::Ints]),
    ("std.xor(#, #)", &[Kind::Truth, Kind::Truth]),
    ("std.isEven(#)", &[Kind::Int]),
    ("std.isInteger(#)", &[Kind::Number]),
    ("std.contains(#, 3)", &[Kind::Ints]),
];

const INTS_FORMS: &[(&str, &[Kind])] = &[
    ("[#, #, #]", &[Kind::Int, Kind::Int, Kind::Int]),
    ("(# + #)", &[Kind::Ints, Kind::Ints]),
    ("std.range(1, std.abs(# % 6))", &[Kind::Int]),
    ("std.makeArray(std.abs(# % 6), function(i) i * i)", &[Kind::Int]),
    ("std.map(function(x) x + #, #)", &[Kind::Int, Kind::Ints]),
    ("std.filter(function(x) x > #, #)", &[Kind::Int, Kind::Ints]),
    (
        "std.filterMap(function(x) x > 1, function(x) -x, #)",
        &[Kind::Ints],
    ),
    ("std.mapWithIndex(function(i, x) i * x, #)", &[Kind::Ints]),
    ("std.flatMap(function(x) [x, x], #)", &[Kind::Ints]),
    ("std.flattenArrays([#, #])", &[Kind::Ints, Kind::Ints]),
    ("std.flattenDeepArray([#, [#]])", &[Kind::Ints, Kind::Ints]),
    ("std.reverse(#)", &[Kind::Ints]),
    ("std.sort(#)", &[Kind::Ints]),
    ("std.sort(#, keyF=function(x) -x)", &[Kind::Ints]),
    ("std.uniq(std.sort(#))", &[Kind::Ints]),
    ("std.set(#)", &[Kind::Ints]),
    ("std.setUnion(std.set(#), std.set(#))", &[Kind::Ints, Kind::Ints]),
    ("std.setInter(std.set(#), std.set(#))", &[Kind::Ints, Kind::Ints]),
    ("std.setDiff(std.set(#), std.set(#))", &[Kind::Ints, Kind::Ints]),
    ("[x * 2 for x in #]", &[Kind::Ints]),
    (
        "[x + y for x in # for y in # if x < y]",
        &[Kind::Ints, Kind::Ints],
    ),
    ("#[1:]", &[Kind::Ints]),
    ("#[:2]", &[Kind::Ints]),
    ("#[::2]", &[Kind::Ints]),
    ("#[-2:]", &[Kind::Ints]),
    ("std.encodeUTF8(#)", &[Kind::Text]),
    ("std.map(std.length, #)", &[Kind::Texts]),
    ("std.find(5, #)", &[Kind::Ints]),
    ("std.findSubstr('a', #)", &[Kind::Text]),
    ("std.repeat(#, 2)", &[Kind::Ints]),
    ("std.remove(#, 5)", &[Kind::Ints]),
    ("std.removeAt(# + [1], 0)", &[Kind::Ints]),
    ("std.slice(#, 0, 2, 1)", &[Kind::Ints]),
];

const TEXTS_FORMS: &[(&str, &[Kind])] = &[
    ("[#, #]", &[Kind::Text, Kind::Text]),
    ("(# + #)", &[Kind::Texts, Kind::Texts]),
    ("std.split(#, ',')", &[Kind::Text]),
    ("std.splitLimit(#, 'l', 1)", &[Kind::Text]),
    ("std.splitLimitR(#, 'l', 1)", &[Kind::Text]),
    ("std.stringChars(#)", &[Kind::Text]),
    ("std.objectFields(#)", &[Kind::Object]),
    ("std.objectFieldsAll(#)", &[Kind::Object]),
    ("std.map(std.toString, #)", &[Kind::Ints]),
    (
        "std.map(function(pair) pair.key, std.objectKeysValues(#))",
        &[Kind::Object],
    ),
    ("std.map(std.type, std.objectValues(#))", &[Kind::Object]),
    ("std.sort(#)", &[Kind::Texts]),
    ("std.set(#, std.length)", &[Kind::Texts]),
    ("std.reverse(#)", &[Kind::Texts]),
    ("[std.deepJoin([#, #])]", &[Kind::Texts, Kind::Texts]),
    ("std.flattenArrays([#, #])", &[Kind::Texts, Kind::Texts]),
    ("[c + '!' for c in # if c != 'a']", &[Kind::Texts]),
    ("std.map(function(x) std.asciiUpper(x), #)", &[Kind::Texts]),
];
