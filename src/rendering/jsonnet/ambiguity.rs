//! Detection of constructs that the first engine reads differently from the language, or accepts although the language
//! refuses them. The scan works byte by byte, because it runs on every file. Ambiguous files are then parsed exactly.
//!
//! - Its operators are single tokens; the language reads a run of symbols as one operator (`1==-1` and `{ a: : 1 }` are
//!   refused).
//! - Its unary operators bind less tightly than `*`, `/` and `%`. This matters for `~`, and in `a / -b / c`.
//! - A fraction that is added to a text, or inserted by `%`, gets fewer digits.
//! - A whole number from 2^53 on is written with other digits.
//! - Two numbers count as equal if they differ by at most 2^-52.
//! - The third list of a comprehension is evaluated only once if it uses no variable except the second one.
//! - A file is read once, as code or as text, regardless of how it is imported.
//! - A list of locals may be empty or end with a comma, `super` may stand alone, and the path of an import may be in
//!   parentheses or in a text block.

use std::ops::Range;

/// Digits of a whole number that is certainly below 2^53.
const WHOLE_DIGITS_MAX: usize = 15;

/// A scanner that detects ambiguous constructs in a text.
pub(super) struct AmbiguityScanner<'a> {
    source: &'a [u8],
    found: bool,
    /// The current run of symbols.
    symbols: Range<usize>,
    /// The last scanned byte, and the offset after it.
    last: (u8, usize),
    expected: Option<ExpectedToken>,
    /// True after a `+` that follows an object.
    extends: bool,
    /// True after an object or an array that is an operand of `+`.
    ends_added: bool,
}

/// The token that must follow a keyword.
#[derive(Clone, Copy)]
enum ExpectedToken {
    /// After an `import` that ends at this offset: a string, then the end of the expression.
    Path(usize),
    /// After a `super` that ends at this offset: an index.
    Index(usize),
}

impl<'a> AmbiguityScanner<'a> {
    pub(super) fn new(source: &'a [u8]) -> Self {
        Self {
            source,
            found: false,
            symbols: 0..0,
            last: (0, 0),
            expected: None,
            extends: false,
            ends_added: false,
        }
    }

    /// Scans the byte at an offset outside of strings, comments and whitespace. `string` is the last string before it.
    pub(super) fn push_byte(&mut self, byte: u8, at: usize, string: Option<&Range<usize>>) {
        if self.found {
            return;
        }
        if let Some(awaited) = self.expected {
            self.await_at(awaited, byte, at, string);
        }
        self.found |= self.is_added(string) || (self.last.0 == b'+' && self.may_be_text(byte, at));
        self.found |= self.is_compared(byte, at) && !self.is_after(string);
        // The operand is a part of that object or array, not the whole.
        self.found |= self.ends_added && matches!(byte, b'.' | b'[' | b'(');
        self.ends_added = false;
        match byte {
            b'~' | b'%' => self.found = true,
            b';' => self.found |= self.has_no_local_before(),
            b':' => self.found |= matches!(self.last.0, b':' | b'+') && self.last.1 != at,
            b'-' | b'+' | b'!' => {
                self.found |= matches!(self.last.0, b'*' | b'/' | b'%') && !self.is_after(string);
                let is_field = self.source.get(at + 1) == Some(&b':');
                self.found |= byte == b'+' && self.is_after(string) && !is_field;
                self.extends = self.last.0 == b'}';
            }
            b'i' if self.source.get(at + 1) == Some(&b'm') => {
                let word = [&b"importstr"[..], b"importbin", b"import"];
                let word = word.into_iter().find(|word| self.is_word(word, at));
                self.found |= word.is_some_and(|word| word != b"import");
                self.expected = word
                    .map(|word| ExpectedToken::Path(at + word.len()))
                    .or(self.expected);
            }
            b's' if self.is_word(b"super", at) => self.expected = Some(ExpectedToken::Index(at + 5)),
            _ => {}
        }
        if is_symbol(byte) {
            if self.symbols.end != at {
                self.found |= self.has_odd_symbols();
                self.symbols.start = at;
            }
            self.symbols.end = at + 1;
        }
        self.last = (byte, at + 1);
    }

    /// True directly after a `+`, and after an object or an array that is an operand of `+`.
    pub(super) fn follows_plus(&self) -> bool {
        self.last.0 == b'+' || self.ends_added
    }

    /// Continues after the closing bracket of an operand of `+`.
    pub(super) fn end_added(&mut self) {
        self.ends_added = true;
    }

    /// Continues after a word whose first byte was scanned. `end` is the offset after the word.
    pub(super) fn end_word(&mut self, end: usize) {
        let last = end.checked_sub(1).and_then(|last| self.source.get(last));
        self.last = last.map_or(self.last, |last| (*last, end));
    }

    /// True if the text contains an ambiguous construct. `string` is the last string of the text.
    pub(super) fn is_ambiguous(&self, string: Option<&Range<usize>>) -> bool {
        let ends_early = match self.expected {
            Some(ExpectedToken::Index(_)) => true,
            Some(ExpectedToken::Path(from)) => !self.is_path(from, string),
            None => false,
        };
        self.found || ends_early || self.has_odd_symbols() || self.is_added(string)
    }

    /// True if a string that can be a path follows an `import` that ends at `from`.
    fn is_path(&self, from: usize, string: Option<&Range<usize>>) -> bool {
        let path = string.filter(|string| string.start >= from);
        path.is_some_and(|path| self.source.get(path.start) != Some(&b'|'))
    }

    /// True if a string follows the last scanned byte.
    fn is_after(&self, string: Option<&Range<usize>>) -> bool {
        string.is_some_and(|string| string.start >= self.last.1)
    }

    /// True if a string is the right operand of `+`.
    fn is_added(&self, string: Option<&Range<usize>>) -> bool {
        self.last.0 == b'+' && self.is_after(string)
    }

    /// True if the operand of `==` or `!=` that begins at this byte may be a number that is nearly equal to another
    /// one.
    fn is_compared(&self, byte: u8, at: usize) -> bool {
        if self.symbols.end != self.last.1 {
            return false;
        }
        let rest = self.source.get(at..).unwrap_or_default();
        let symbols = self.source.get(self.symbols.clone()).unwrap_or_default();
        let follows = matches!(symbols, b"==" | b"!=");
        let is_value = || {
            [&b"null"[..], b"true", b"false"]
                .iter()
                .any(|word| self.is_word(word, at))
        };
        let is_apart = || {
            let is_apart = matches!(rest, [b'3'..=b'9', ..] | [b'1' | b'2', b'0'..=b'9', ..]);
            is_apart && !matches!(after_number(rest), Some(b'e' | b'E'))
        };
        follows && byte != b'!' && !is_value() && !is_apart()
    }

    /// True if the operand of `+` that begins at this byte may be a text, or may be added to a text: it is not an
    /// object, an array or a whole number.
    fn may_be_text(&self, byte: u8, at: usize) -> bool {
        let rest = self.source.get(at..).unwrap_or_default();
        if self.extends {
            return matches!(byte, b'0'..=b'9' | b'-' | b'(') && !is_whole(rest);
        }
        !is_whole(rest) && !matches!(byte, b':' | b'{' | b'[')
    }

    fn await_at(&mut self, awaited: ExpectedToken, byte: u8, at: usize, string: Option<&Range<usize>>) {
        let (ExpectedToken::Path(from) | ExpectedToken::Index(from)) = awaited;
        if at < from {
            return;
        }
        self.expected = None;
        self.found |= match awaited {
            ExpectedToken::Index(_) => !matches!(byte, b'.' | b'['),
            ExpectedToken::Path(from) => {
                !self.is_path(from, string) || !matches!(byte, b',' | b';' | b')' | b']' | b'}')
            }
        };
    }

    /// True if a complete word begins at this offset.
    fn is_word(&self, word: &[u8], at: usize) -> bool {
        let continues = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let before = at.checked_sub(1).and_then(|before| self.source.get(before));
        let rest = self.source.get(at..).and_then(|rest| rest.strip_prefix(word));
        !before.is_some_and(continues) && rest.is_some_and(|rest| !rest.first().is_some_and(continues))
    }

    fn has_no_local_before(&self) -> bool {
        let (last, end) = self.last;
        let before = self.source.get(..end).unwrap_or_default();
        last == b',' || (last == b'l' && before.ends_with(b"local"))
    }

    /// True if a run of symbols is neither one operator nor an operator followed by unary operators.
    fn has_odd_symbols(&self) -> bool {
        let symbols = self.source.get(self.symbols.clone()).unwrap_or_default();
        !matches!(
            symbols,
            [] | [_]
                | b"!="
                | b"=="
                | b"<="
                | b">="
                | b"<<"
                | b">>"
                | b"&&"
                | b"||"
                | b"::"
                | b"+:"
                | b":::"
                | b"+::"
                | b"+:::"
                | [_, b'+' | b'-' | b'~' | b'!' | b'$']
        )
    }
}

/// Returns the byte directly after a number without an exponent.
fn after_number(rest: &[u8]) -> Option<u8> {
    let continues = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'_');
    rest.iter().find(|byte| !continues(byte)).copied()
}

/// True for a whole number that every engine writes in the same way and that is the complete operand.
fn is_whole(rest: &[u8]) -> bool {
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let after = rest.get(digits..).unwrap_or_default();
    let next = after.iter().find(|byte| !byte.is_ascii_whitespace());
    let ends = matches!(next, None | Some(b',' | b';' | b')' | b']' | b'}' | b'+'));
    (1..=WHOLE_DIGITS_MAX).contains(&digits) && ends
}

fn is_symbol(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'$'
            | b':'
            | b'~'
            | b'+'
            | b'-'
            | b'&'
            | b'|'
            | b'^'
            | b'='
            | b'<'
            | b'>'
            | b'*'
            | b'/'
            | b'%'
    )
}
