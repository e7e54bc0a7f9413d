//! Programs made from a seed whose values depend on how a text is read: comments, strings of all kinds, text blocks,
//! numbers, operators without parentheses, commas, colons, slices. Most have a value. Every fourth has a token that is
//! lost, doubled, moved or foreign, and most of those have none.

mod objects;
mod parts;
mod words;

use super::sources::Random;
use words::{COLONS, FOREIGN, GAPS, NUMBERS, ODD_NUMBERS, ODD_TEXTS, TEXTS};

/// The files that the programs import.
pub(crate) const FILES: [(&str, &str); 3] = [
    (
        "one.libsonnet",
        "{ a: 1, f(x):: x + 1, /* of *odd* stars ***/ t: 'x' /**/ }\n",
    ),
    ("two.json", "[1, 2.50, \"\\u00e9\\/\"]\n"),
    ("three.txt", "a\r\n/* text **/ ~2*3 \\/ |||\n"),
];

/// The type of value an expression has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Number,
    Truth,
    Text,
    List,
    Object,
}

const KINDS: [Kind; 5] = [Kind::Number, Kind::Truth, Kind::Text, Kind::List, Kind::Object];

/// A program.
pub(crate) fn written(seed: u64) -> String {
    let mut random = Random::new(seed ^ 0x1E_C5ED);
    let gap = [3, 6, 15, 80][random.below(4)];
    let mut writer = Writer {
        random,
        tokens: Vec::new(),
        names: Vec::new(),
        inside: 0,
    };
    let kind = writer.kind();
    let depth = 1 + writer.random.below(4);
    writer.expression(kind, depth);
    if writer.random.one_in(4) {
        writer.spoil();
    }
    writer.text(gap)
}

struct Writer {
    random: Random,
    tokens: Vec<String>,
    /// Names that mean something here.
    names: Vec<(String, Kind)>,
    /// Objects around what is written.
    inside: usize,
}

impl Writer {
    fn put(&mut self, token: &str) {
        self.tokens.push(token.to_owned());
    }

    fn pick(&mut self, from: &[&str]) {
        let token = self.random.pick(from);
        self.put(token);
    }

    fn kind(&mut self) -> Kind {
        KINDS[self.random.below(KINDS.len())]
    }

    /// A comma where one may be left out.
    fn last_comma(&mut self) {
        if self.random.one_in(3) {
            self.put(",");
        }
    }

    fn expression(&mut self, kind: Kind, depth: usize) {
        if depth == 0 {
            return self.simple(kind);
        }
        let below = depth - 1;
        match self.random.below(14) {
            0 => self.with_local(kind, below),
            1 => self.conditional(kind, below),
            2 => self.with_assert(kind, below),
            3 => self.call(kind, below),
            4 => self.picked(kind, below),
            5 => {
                self.put("(");
                self.expression(kind, below);
                self.put(")");
            }
            _ => self.of_kind(kind, below),
        }
    }

    fn simple(&mut self, kind: Kind) {
        let known: Vec<String> = self
            .names
            .iter()
            .filter(|(_, of)| *of == kind)
            .map(|(name, _)| name.clone())
            .collect();
        if !known.is_empty() && self.random.one_in(2) {
            let name = known[self.random.below(known.len())].clone();
            return self.put(&name);
        }
        let odd = self.random.one_in(40);
        match kind {
            Kind::Number if odd => self.pick(ODD_NUMBERS),
            Kind::Number => self.pick(NUMBERS),
            Kind::Truth => self.pick(&["true", "false"]),
            Kind::Text if self.random.one_in(12) => self.pick(ODD_TEXTS),
            Kind::Text => self.pick(TEXTS),
            Kind::List => {
                self.put("[");
                let count = self.random.below(4);
                for index in 0..count {
                    self.pick(NUMBERS);
                    if index + 1 < count {
                        self.put(",");
                    }
                }
                if count > 0 {
                    self.last_comma();
                }
                self.put("]");
            }
            Kind::Object => {
                if self.random.one_in(6) {
                    self.put("(");
                    self.put("import");
                    self.pick(&[
                        "'one.libsonnet'",
                        "\"one.libsonnet\"",
                        "@'one.libsonnet'",
                        "'\\u006fne.libsonnet'",
                    ]);
                    return self.put(")");
                }
                self.put("{");
                for index in 0..self.random.below(3) {
                    self.put(["a", "'b c'"][index]);
                    self.pick(COLONS);
                    self.pick(NUMBERS);
                    self.put(",");
                }
                self.put("}");
            }
        }
    }

    fn of_kind(&mut self, kind: Kind, depth: usize) {
        match kind {
            Kind::Number => self.number(depth),
            Kind::Truth => self.truth(depth),
            Kind::Text => self.written_text(depth),
            Kind::List => self.list(depth),
            Kind::Object => self.object_like(depth),
        }
    }

    fn name(&mut self) -> String {
        let name = self.random.pick(&["x", "y", "z", "_", "forx", "null_", "x1"]);
        name.to_owned()
    }

    /// Loses, doubles, moves or puts in a token.
    fn spoil(&mut self) {
        let at = self.random.below(self.tokens.len());
        match self.random.below(8) {
            0 => drop(self.tokens.remove(at)),
            1 => self.tokens.insert(at, self.tokens[at].clone()),
            2 => {
                let other = self.random.below(self.tokens.len());
                self.tokens.swap(at, other);
            }
            3 => {
                let token = self.random.pick(FOREIGN);
                self.tokens[at] = token.to_owned();
            }
            4 => {
                let chars: Vec<char> = self.tokens[at].chars().collect();
                let lost = self.random.below(chars.len().max(1));
                let kept = chars.iter().enumerate().filter(|(place, _)| *place != lost);
                self.tokens[at] = kept.map(|(_, char)| *char).collect();
            }
            _ => {
                let token = self.random.pick(FOREIGN);
                self.tokens.insert(at, token.to_owned());
            }
        }
    }

    /// The tokens with something between them.
    fn text(mut self, gap: usize) -> String {
        let mut text = String::new();
        for token in std::mem::take(&mut self.tokens) {
            let word = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
            let symbol = |char: char| "!$:~+-&|^=<>*/%".contains(char);
            let last = text.chars().next_back().unwrap_or(' ');
            let first = token.chars().next().unwrap_or(' ');
            let apart = (word(last) && word(first)) || (symbol(last) && symbol(first));
            match self.random.one_in(gap) {
                true => self.between(&mut text),
                // Tokens that belong together, and some that become one.
                false if apart && !self.random.one_in(12) => text.push(' '),
                false if self.random.one_in(4) => text.push(' '),
                false => {}
            }
            text.push_str(&token);
        }
        if self.random.one_in(6) {
            self.between(&mut text);
        }
        text
    }

    fn between(&mut self, text: &mut String) {
        text.push_str(self.random.pick(GAPS));
    }
}
