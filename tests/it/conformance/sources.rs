//! Jsonnet sources generated from a seed: every construct, with comments and blank lines wherever they are allowed.
//! Most are valid. The invalid ones are invalid in the same way every time.

use super::random::SourceRandom;
use super::source_layout::lay_out;

pub(crate) fn generate_source(seed: u64) -> String {
    let mut random = SourceRandom::new(seed);
    let gap = [2, 4, 12, 60][random.below(4)];
    let mut writer = SourceGenerator {
        random,
        tokens: Vec::new(),
        gap,
    };
    if writer.random.one_in(3) {
        writer.imports();
    }
    let depth = 1 + writer.random.below(5);
    writer.expression(depth);
    lay_out(writer.tokens, writer.gap, writer.random)
}

/// Generates a source with one token removed, doubled or replaced.
pub(crate) fn generate_broken_source(seed: u64) -> String {
    let mut text = generate_source(seed);
    let mut random = SourceRandom::new(seed ^ 0xBAD);
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let at = places[random.below(places.len())];
    match random.below(3) {
        0 => {
            text.remove(at);
        }
        1 => text.insert_str(
            at,
            random.pick(&[
                "}", "]", "(", "'", "|||", "=", "::", "1_", "é", "local", "/*", ":", "!", "@", ".", "0x",
                "\\u12", "for",
            ]),
        ),
        _ => text.truncate(at),
    }
    text
}

struct SourceGenerator {
    random: SourceRandom,
    tokens: Vec<String>,
    gap: usize,
}

const NAMES: [&str; 8] = ["a", "b", "foo", "bar_1", "x", "longer_name", "std", "_"];
const OPERATORS: [&str; 18] = [
    "*", "/", "%", "+", "+", "+", "-", "<<", ">>", ">", ">=", "<", "<=", "==", "!=", "&", "&&", "||",
];
const STRINGS: [&str; 24] = [
    "'plain'",
    "\"plain\"",
    "'it\\'s'",
    "\"it's\"",
    "'say \"x\"'",
    "\"a\\\"b\"",
    "'both \\' \"'",
    "\"\"",
    "''",
    "'\\n\\t\\u0041\\u00e9'",
    "\"\\ud83d\\ude00\"",
    "'é ü 🚀'",
    "@'ver''batim'",
    "@\"ver\"\"batim\"",
    "@'x\\y'",
    "'with\nnewline'",
    "'foo'",
    "\"local\"",
    "'a b'",
    "|||\n  text\n  block\n|||",
    "|||\n\t\n\ttab\n\n\tblock\n  |||",
    "|||-\n    chomped\n      deeper\n|||",
    "|||\n\n   blank first\n|||",
    "\"\\u007f\\u0000/\\/\"",
];
const NUMBERS: [&str; 8] = ["0", "1", "42", "1.5", "1e10", "2.5E-3", "1_000_000", "0.1_2e+1_0"];

impl SourceGenerator {
    fn put(&mut self, token: &str) {
        self.tokens.push(token.to_owned());
    }

    fn name(&mut self) {
        let name = self.random.pick(&NAMES);
        self.put(name);
    }

    fn string(&mut self) {
        let string = self.random.pick(&STRINGS);
        self.put(string);
    }

    fn imports(&mut self) {
        for _ in 0..1 + self.random.below(6) {
            self.put("local");
            let count = 1 + self.random.below(10) / 8;
            for index in 0..count {
                if index > 0 {
                    self.put(",");
                }
                let name = format!("i{}", self.random.below(40));
                self.put(&name);
                self.put("=");
                self.put("import");
                let file =
                    self.random
                        .pick(&["'z.jsonnet'", "\"a.libsonnet\"", "'m/b.libsonnet'", "@'k'", "'B'"]);
                self.put(file);
            }
            self.put(";");
        }
    }

    fn list(&mut self, most: usize, mut element: impl FnMut(&mut Self, usize)) {
        let count = self.random.below(most + 1);
        for index in 0..count {
            if index > 0 {
                self.put(",");
            }
            element(self, index);
        }
        if count > 0 && self.random.one_in(3) {
            self.put(",");
        }
    }

    fn expression(&mut self, depth: usize) {
        if depth == 0 {
            return self.terminal();
        }
        let below = depth - 1;
        match self.random.below(24) {
            0..=3 => self.object(below),
            4 => self.object_comprehension(below),
            5 | 6 => self.array(below),
            7 => {
                self.put("[");
                self.expression(below);
                if self.random.one_in(4) {
                    self.put(",");
                }
                self.specs(below);
                self.put("]");
            }
            8 | 9 => {
                self.expression(below);
                let operator = self.random.pick(&OPERATORS);
                self.put(operator);
                self.expression(below);
            }
            10 => self.local(below),
            11 => {
                self.put("if");
                self.expression(below);
                self.put("then");
                self.expression(below);
                if !self.random.one_in(3) {
                    self.put("else");
                    self.expression(below);
                }
            }
            12 => {
                self.put("function");
                self.parameters(below);
                self.expression(below);
            }
            13 | 14 => self.call(below),
            15 => {
                self.postfix_target(below);
                self.put(".");
                self.name();
            }
            16 => {
                self.postfix_target(below);
                self.put("[");
                self.expression(below);
                self.put("]");
            }
            17 => self.slice(below),
            18 => {
                self.put("(");
                self.expression(below);
                self.put(")");
            }
            19 => {
                let operator = self.random.pick(&["-", "+", "!", "~"]);
                self.put(operator);
                self.expression(below);
            }
            20 => {
                self.put("assert");
                self.expression(below);
                if self.random.one_in(2) {
                    self.put(":");
                    self.expression(below);
                }
                self.put(";");
                self.expression(below);
            }
            21 => {
                self.name();
                if self.random.one_in(2) {
                    self.put("+");
                }
                self.object(below);
            }
            22 => {
                self.string();
                self.put("in");
                let right = self.random.pick(&["super", "self", "$", "a"]);
                self.put(right);
            }
            _ => {
                self.put("error");
                self.expression(below);
            }
        }
    }

    fn terminal(&mut self) {
        match self.random.below(12) {
            0 | 1 => self.string(),
            2 | 3 => {
                let number = self.random.pick(&NUMBERS);
                self.put(number);
            }
            4 => {
                let word = self.random.pick(&["true", "false", "null", "self", "$"]);
                self.put(word);
            }
            5 => {
                let (open, close) = if self.random.one_in(2) {
                    ("{", "}")
                } else {
                    ("[", "]")
                };
                self.put(open);
                self.put(close);
            }
            6 => {
                self.put("super");
                if self.random.one_in(2) {
                    self.put(".");
                    self.name();
                } else {
                    self.put("[");
                    self.string();
                    self.put("]");
                }
            }
            7 => {
                let word = self.random.pick(&["import", "importstr", "importbin"]);
                self.put(word);
                self.put("'file'");
            }
            _ => self.name(),
        }
    }

    fn postfix_target(&mut self, depth: usize) {
        if self.random.one_in(3) {
            return self.name();
        }
        if self.random.one_in(2) {
            self.put("(");
            self.expression(depth);
            self.put(")");
        } else {
            self.put("$");
        }
    }

    fn array(&mut self, depth: usize) {
        self.put("[");
        self.list(4, |writer, _| writer.expression(depth));
        self.put("]");
    }

    fn call(&mut self, depth: usize) {
        self.postfix_target(depth);
        self.put("(");
        let named_from = self.random.below(4);
        self.list(4, |writer, index| {
            if index >= named_from {
                writer.name();
                writer.put("=");
            }
            writer.expression(depth);
        });
        self.put(")");
        if self.random.one_in(6) {
            self.put("tailstrict");
        }
    }

    fn slice(&mut self, depth: usize) {
        self.postfix_target(depth);
        self.put("[");
        for colon in [false, true, self.random.one_in(2)] {
            if colon {
                self.put(":");
            }
            if self.random.one_in(2) && (colon || self.tokens.last().is_some_and(|last| last == "[")) {
                self.expression(depth);
            }
        }
        self.put("]");
    }

    fn parameters(&mut self, depth: usize) {
        self.put("(");
        self.list(3, |writer, index| {
            writer.put(NAMES[index]);
            if writer.random.one_in(3) {
                writer.put("=");
                writer.expression(depth);
            }
        });
        self.put(")");
    }

    fn local(&mut self, depth: usize) {
        self.put("local");
        let count = 1 + self.random.below(3);
        for (index, name) in NAMES.iter().enumerate().take(count) {
            if index > 0 {
                self.put(",");
            }
            self.put(name);
            if self.random.one_in(3) {
                self.parameters(depth);
            }
            self.put("=");
            self.expression(depth);
        }
        self.put(";");
        self.expression(depth);
    }

    fn specs(&mut self, depth: usize) {
        for _ in 0..1 + self.random.below(6) / 4 {
            self.put("for");
            self.name();
            self.put("in");
            self.expression(depth);
            for _ in 0..self.random.below(5) / 2 {
                self.put("if");
                self.expression(depth);
            }
        }
    }

    fn object(&mut self, depth: usize) {
        self.put("{");
        self.list(5, |writer, index| writer.field(depth, index));
        self.put("}");
    }

    fn object_comprehension(&mut self, depth: usize) {
        self.put("{");
        if self.random.one_in(3) {
            self.put("local");
            self.put("x");
            self.put("=");
            self.expression(depth);
            self.put(",");
        }
        self.put("[");
        self.expression(depth);
        self.put("]");
        self.put(":");
        self.expression(depth);
        if self.random.one_in(3) {
            self.put(",");
        }
        self.specs(depth);
        self.put("}");
    }

    fn field(&mut self, depth: usize, index: usize) {
        match self.random.below(10) {
            0 => {
                self.put("local");
                self.put(NAMES[index]);
                if self.random.one_in(3) {
                    self.parameters(depth);
                }
                self.put("=");
                return self.expression(depth);
            }
            1 => {
                self.put("assert");
                self.expression(depth);
                if self.random.one_in(2) {
                    self.put(":");
                    self.expression(depth);
                }
                return;
            }
            2 => {
                self.put("[");
                self.expression(depth);
                self.put("]");
            }
            3 => {
                self.put("[");
                self.put(&format!("'f{index}'"));
                self.put("]");
            }
            4 => {
                let quoted = [format!("\"q{index}\""), format!("'q-{index}'")];
                let which = self.random.below(2);
                self.put(&quoted[which]);
            }
            _ => self.put(&format!("n{index}")),
        }
        let method = self.random.one_in(6);
        if method {
            self.parameters(depth);
        }
        let operator = self.random.pick(if method {
            &[":", "::", ":::"]
        } else {
            &[":", ":", "::", ":::", "+:", "+::", "+:::"]
        });
        self.put(operator);
        self.expression(depth);
    }
}
