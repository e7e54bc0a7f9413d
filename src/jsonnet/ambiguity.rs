//! Constructs that the first engine takes in another way than the language, or takes although the language refuses
//! them. They are looked for byte by byte, because every file is looked at; what is doubtful is then parsed exactly.
//!
//! - Its operators are single tokens; the language takes all symbols in a row for one (`1==-1` is refused, and so is
//!   `{ a: : 1 }`).
//! - Its unary operators bind less tightly than `*`, `/` and `%`, which shows with `~`, and in `a / -b / c`.
//! - A fraction that is added to a text gets fewer digits, and so does one that `%` puts into one.
//! - A whole number from 2^53 on is written with other digits.
//! - Two numbers are equal where they differ by no more than 2^-52.
//! - The third list of a comprehension is evaluated once where it names nothing but what the second one gives.
//! - A file is read once, as code or as text, whatever it is imported as.
//! - A list of locals may be empty or end with a comma, `super` may stand alone, and the path of an import may stand in
//!   parentheses or in a text block.

use std::ops::Range;

/// Digits of a number that is certainly below 2^53.
const WHOLE_DIGITS_MAX: usize = 15;

/// The doubts about a text, as far as it was seen.
pub(super) struct AmbiguityScanner<'a> {
    source: &'a [u8],
    found: bool,
    /// Symbols in a row.
    symbols: Range<usize>,
    /// The last byte that was seen, and the place after it.
    last: (u8, usize),
    expected: Option<ExpectedToken>,
    /// True after a `+` behind an object.
    extends: bool,
    /// True after an object or an array that is added to something.
    ends_added: bool,
}

/// The tokens that have to follow a keyword.
#[derive(Clone, Copy)]
enum ExpectedToken {
    /// After an `import` that ends here: a string, and then the end of an expression.
    Path(usize),
    /// After a `super` that ends here: an index.
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

    /// Sees the byte at a place, which is not part of a string, a comment or a blank. `string` is the last string
    /// before it.
    pub(super) fn push_byte(&mut self, byte: u8, at: usize, string: Option<&Range<usize>>) {
        if self.found {
            return;
        }
        if let Some(awaited) = self.expected {
            self.await_at(awaited, byte, at, string);
        }
        self.found |= self.is_added(string) || (self.last.0 == b'+' && self.may_be_text(byte, at));
        self.found |= self.is_compared(byte, at) && !self.is_after(string);
        // What is added is not all of it, but a part.
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

    /// True directly after a `+`, and after an object or an array that is added.
    pub(super) fn follows_plus(&self) -> bool {
        self.last.0 == b'+' || self.ends_added
    }

    /// Goes on after a bracket that was opened after a `+`.
    pub(super) fn end_added(&mut self) {
        self.ends_added = true;
    }

    /// Goes on after a word whose first byte was seen and that ends at a place.
    pub(super) fn end_word(&mut self, end: usize) {
        let last = end.checked_sub(1).and_then(|last| self.source.get(last));
        self.last = last.map_or(self.last, |last| (*last, end));
    }

    /// True where anything was doubtful. `string` is the last string of the text.
    pub(super) fn is_ambiguous(&self, string: Option<&Range<usize>>) -> bool {
        let ends_early = match self.expected {
            Some(ExpectedToken::Index(_)) => true,
            Some(ExpectedToken::Path(from)) => !self.is_path(from, string),
            None => false,
        };
        self.found || ends_early || self.has_odd_symbols() || self.is_added(string)
    }

    /// True where a string that may name a file follows an `import` that ends at a place.
    fn is_path(&self, from: usize, string: Option<&Range<usize>>) -> bool {
        let path = string.filter(|string| string.start >= from);
        path.is_some_and(|path| self.source.get(path.start) != Some(&b'|'))
    }

    /// True where a string stands after the last byte that was seen.
    fn is_after(&self, string: Option<&Range<usize>>) -> bool {
        string.is_some_and(|string| string.start >= self.last.1)
    }

    /// True where a string is added to what stands before it.
    fn is_added(&self, string: Option<&Range<usize>>) -> bool {
        self.last.0 == b'+' && self.is_after(string)
    }

    /// True where what begins with a byte after a `==` or `!=` may be a number that is nearly another one.
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

    /// True where what begins with a byte after a `+` may be added to a text, or be one: it is no object, no array and
    /// no whole number.
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

    /// True for a word that begins at a place and is not part of a longer one.
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

    /// True for symbols in a row that are not one operator, and not one that others follow which stand before an
    /// operand.
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

/// True for a whole number that every engine writes in the same way, and that is all of what is added.
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
