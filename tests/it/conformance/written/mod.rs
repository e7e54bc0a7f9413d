//! Programs generated from a seed whose values depend on how a text is parsed: comments, strings of all kinds, text
//! blocks, numbers, operators without parentheses, commas, colons, slices. Most have a value. Every fourth has a token
//! that is removed, doubled, moved or inserted, and most of those have none.

mod objects;
mod parts;
mod words;

use super::random::SourceRandom;
use words::{COLONS, GAPS, NUMBERS, ODD_NUMBERS, ODD_TEXTS, STRAY_TOKENS, TEXTS};

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
enum ProgramType {
    Number,
    Truth,
    Text,
    List,
    Object,
}

const KINDS: [ProgramType; 5] = [
    ProgramType::Number,
    ProgramType::Truth,
    ProgramType::Text,
    ProgramType::List,
    ProgramType::Object,
];

pub(crate) fn generate_program(seed: u64) -> String {
    let mut random = SourceRandom::new(seed ^ 0x1E_C5ED);
    let gap = [3, 6, 15, 80][random.below(4)];
    let mut writer = TokenWriter {
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

struct TokenWriter {
    random: SourceRandom,
    tokens: Vec<String>,
    /// The names in scope.
    names: Vec<(String, ProgramType)>,
    /// The number of enclosing objects.
    inside: usize,
}

impl TokenWriter {
    fn put(&mut self, token: &str) {
        self.tokens.push(token.to_owned());
    }

    fn pick(&mut self, from: &[&str]) {
        let token = self.random.pick(from);
        self.put(token);
    }

    fn kind(&mut self) -> ProgramType {
        KINDS[self.random.below(KINDS.len())]
    }

    /// Writes a comma where one is optional.
    fn last_comma(&mut self) {
        if self.random.one_in(3) {
            self.put(",");
        }
    }

    fn expression(&mut self, kind: ProgramType, depth: usize) {
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

    fn simple(&mut self, kind: ProgramType) {
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
            ProgramType::Number if odd => self.pick(ODD_NUMBERS),
            ProgramType::Number => self.pick(NUMBERS),
            ProgramType::Truth => self.pick(&["true", "false"]),
            ProgramType::Text if self.random.one_in(12) => self.pick(ODD_TEXTS),
            ProgramType::Text => self.pick(TEXTS),
            ProgramType::List => {
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
            ProgramType::Object => {
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

    fn of_kind(&mut self, kind: ProgramType, depth: usize) {
        match kind {
            ProgramType::Number => self.number(depth),
            ProgramType::Truth => self.truth(depth),
            ProgramType::Text => self.written_text(depth),
            ProgramType::List => self.list(depth),
            ProgramType::Object => self.object_like(depth),
        }
    }

    fn name(&mut self) -> String {
        let name = self.random.pick(&["x", "y", "z", "_", "forx", "null_", "x1"]);
        name.to_owned()
    }

    /// Removes, doubles, moves or inserts a token.
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
                let token = self.random.pick(STRAY_TOKENS);
                self.tokens[at] = token.to_owned();
            }
            4 => {
                let chars: Vec<char> = self.tokens[at].chars().collect();
                let lost = self.random.below(chars.len().max(1));
                let kept = chars.iter().enumerate().filter(|(place, _)| *place != lost);
                self.tokens[at] = kept.map(|(_, char)| *char).collect();
            }
            _ => {
                let token = self.random.pick(STRAY_TOKENS);
                self.tokens.insert(at, token.to_owned());
            }
        }
    }

    /// Returns the tokens with whitespace or comments between them.
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
                // Most tokens that need a separator get one. A few are joined to a single token.
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
