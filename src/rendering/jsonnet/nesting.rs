//! A scan of a source text before any parser runs. It measures the nesting of brackets, because parsers recurse, and
//! detects constructs that the first engine's parser may read differently from the language. It reads strings and
//! comments as the language does and checks nothing else; a parser refuses text that is not Jsonnet.

use super::ambiguity::AmbiguityScanner;
use std::ops::Range;

/// The result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SourceScan {
    /// The nesting depth of brackets.
    pub(super) depth: usize,
    /// The bodies of comments that the first engine ends at another position than the language: a block comment at the
    /// first `*/` with an odd number of stars, a line comment at a carriage return.
    pub(super) misread: Vec<Range<usize>>,
    /// True if the text contains a construct that the first engine reads differently from the language, or accepts
    /// although the language refuses it. The text must then be parsed.
    pub(super) is_ambiguous: bool,
    /// The offset of a name that only rewritten sources may contain.
    pub(super) reserved: Option<usize>,
}

/// The prefix of the names that only rewritten sources may contain.
pub(super) const RESERVED: &str = "_drydock";

struct UnclosedBracket {
    bracket: u8,
    /// The offset after it.
    at: usize,
    /// The number of `for` clauses in it.
    fors: usize,
    /// True if it follows a `+`.
    is_added: bool,
}

impl SourceScan {
    /// Scans a text once.
    pub(super) fn new(source: &[u8]) -> Self {
        let mut scan = Scan {
            source,
            rest: source,
            misread: Vec::new(),
            last_string: None,
            has_odd_escape: false,
        };
        let mut found = Self::default();
        let mut open: Vec<UnclosedBracket> = Vec::new();
        let mut scanner = AmbiguityScanner::new(source);
        while let Some(token) = scan.next() {
            let at = scan.at() - 1;
            match token {
                b'{' | b'[' | b'(' => {
                    open.push(UnclosedBracket {
                        bracket: token,
                        at: scan.at(),
                        fors: 0,
                        is_added: scanner.follows_plus(),
                    });
                    found.depth = found.depth.max(open.len());
                }
                b'f' if scan.is_word(b"or") => {
                    if let Some(open) = open.last_mut() {
                        open.fors += 1;
                        found.is_ambiguous |= open.fors > 2;
                        found.is_ambiguous =
                            found.is_ambiguous || (open.fors == 1 && scan.is_ambiguous_comprehension(open));
                    }
                }
                b'_' if source
                    .get(at..)
                    .is_some_and(|rest| rest.starts_with(RESERVED.as_bytes())) =>
                {
                    found.reserved = found.reserved.or(Some(at));
                }
                _ => {}
            }
            scanner.push_byte(token, at, scan.last_string.as_ref());
            if let b'}' | b']' | b')' = token
                && open.pop().is_some_and(|open| open.is_added)
            {
                scanner.end_added();
            }
            if is_letter(token) {
                scan.skip_word();
                scanner.end_word(scan.at());
            }
        }
        found.is_ambiguous |= scanner.is_ambiguous(scan.last_string.as_ref()) || scan.has_odd_escape;
        found.misread = scan.misread;
        found
    }
}

/// Returns the offset of the first token from an offset on.
pub(super) fn next_token(source: &[u8], from: usize) -> Option<usize> {
    let source = source.get(from..)?;
    let mut scan = Scan {
        source,
        rest: source,
        misread: Vec::new(),
        last_string: None,
        has_odd_escape: false,
    };
    scan.next().map(|_| from + scan.at() - 1)
}

/// True for a byte that can begin a word.
fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

struct Scan<'a> {
    source: &'a [u8],
    rest: &'a [u8],
    misread: Vec<Range<usize>>,
    last_string: Option<Range<usize>>,
    /// True after an escape that the first engine reads differently from the language: `\/`, `\x`, or half of a
    /// surrogate pair.
    has_odd_escape: bool,
}

impl Scan<'_> {
    /// Returns the next byte outside of strings, comments and whitespace.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.rest.first()?;
            match self.rest {
                [b' ' | b'\n' | b'\t' | b'\r', ..] => self.skip(1),
                [b'#', ..] => self.skip_line_comment(1),
                [b'/', b'/', ..] => self.skip_line_comment(2),
                [b'/', b'*', ..] => self.skip_block_comment(),
                [b'|', b'|', b'|', ..] => self.string(Self::skip_block),
                [b'@', quote @ (b'"' | b'\''), ..] => {
                    let quote = *quote;
                    self.string(|scan| {
                        scan.skip(2);
                        scan.skip_verbatim(quote);
                    });
                }
                [quote @ (b'"' | b'\''), ..] => {
                    let quote = *quote;
                    self.string(|scan| {
                        scan.skip(1);
                        scan.skip_string(quote);
                    });
                }
                _ => {
                    self.skip(1);
                    return Some(byte);
                }
            }
        }
    }

    /// Skips the rest of a word.
    fn skip_word(&mut self) {
        let continues = |byte: &u8| is_letter(*byte) || byte.is_ascii_digit();
        let length = self.rest.iter().position(|byte| !continues(byte));
        self.skip(length.unwrap_or(self.rest.len()));
    }

    /// Skips a string, and records its range.
    fn string(&mut self, skip: impl FnOnce(&mut Self)) {
        let start = self.at();
        skip(self);
        self.last_string = Some(start..self.at());
    }

    /// True if the first engine reads the comprehension in this bracket differently: an object, or an array of a name.
    /// The scan is at its `for`.
    fn is_ambiguous_comprehension(&self, open: &UnclosedBracket) -> bool {
        let end = self.at().saturating_sub(1);
        let body = self.source.get(open.at..end).unwrap_or_default();
        let is_around = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'(' | b')' | b',');
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
        let is_comment = |byte: &u8| matches!(byte, b'/' | b'#');
        match open.bracket {
            b'{' => true,
            b'[' => body.iter().all(|byte| is_around(byte) || is_name(byte)) || body.iter().any(is_comment),
            _ => false,
        }
    }

    /// True if the last byte begins a word that continues with `end` and ends there. A number may come directly before
    /// the word.
    fn is_word(&self, end: &[u8]) -> bool {
        let continues = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let before = self.at().checked_sub(2).and_then(|at| self.source.get(at));
        let before = before.filter(|before| !before.is_ascii_digit());
        let after = self.rest.strip_prefix(end);
        !before.is_some_and(continues) && after.is_some_and(|after| !after.first().is_some_and(continues))
    }

    fn at(&self) -> usize {
        self.source.len() - self.rest.len()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn skip_past(&mut self, end: &[u8]) {
        match memchr::memmem::find(self.rest, end) {
            Some(at) => self.skip(at + end.len()),
            None => self.rest = &[],
        }
    }

    fn skip_line_comment(&mut self, opening: usize) {
        self.skip(opening);
        let start = self.at();
        let length = memchr::memchr(b'\n', self.rest).unwrap_or(self.rest.len());
        let body = self.rest.get(..length).unwrap_or_default();
        let is_last = |at: usize| at + 1 == body.len();
        if memchr::memchr(b'\r', body).is_some_and(|at| !is_last(at)) {
            self.misread.push(start..start + length);
        }
        self.skip(length + 1);
    }

    fn skip_block_comment(&mut self) {
        self.skip(2);
        let start = self.at();
        let Some(length) = memchr::memmem::find(self.rest, b"*/") else {
            self.rest = &[];
            return;
        };
        let body = self.rest.get(..length).unwrap_or_default();
        let stars = body.iter().rev().take_while(|byte| **byte == b'*').count();
        if stars % 2 == 1 {
            self.misread.push(start..start + length);
        }
        self.skip(length + 2);
    }

    fn skip_string(&mut self, quote: u8) {
        while let Some(at) = memchr::memchr2(quote, b'\\', self.rest) {
            let escape = self.rest.get(at) == Some(&b'\\');
            self.has_odd_escape |= escape && is_odd_escape(self.rest.get(at + 1..).unwrap_or_default());
            self.skip(at + if escape { 2 } else { 1 });
            if !escape {
                return;
            }
        }
        self.rest = &[];
    }

    /// Skips the rest of a verbatim string, in which a doubled quote means one quote.
    fn skip_verbatim(&mut self, quote: u8) {
        while let Some(at) = memchr::memchr(quote, self.rest) {
            self.skip(at + 1);
            if self.rest.first() != Some(&quote) {
                return;
            }
            self.skip(1);
        }
        self.rest = &[];
    }

    /// Skips a text block, which ends at the first nonempty line without the indentation of its first line.
    fn skip_block(&mut self) {
        self.skip(3);
        self.skip_past(b"\n");
        while let [b'\n', ..] | [b'\r', b'\n', ..] = self.rest {
            self.skip_past(b"\n");
        }
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let indentation: Vec<u8> = self.rest.iter().take_while(blank).copied().collect();
        if indentation.is_empty() {
            // The text block is invalid, and the parser reports it.
            return;
        }
        while self.rest.starts_with(&indentation) || matches!(self.rest, [b'\n', ..] | [b'\r', b'\n', ..]) {
            self.skip_past(b"\n");
        }
        let ending = self.rest.iter().take_while(blank).count();
        self.skip(ending);
        if self.rest.starts_with(b"|||") {
            self.skip(3);
        }
    }
}

/// True if the first engine reads the escape after a backslash differently from the language.
fn is_odd_escape(escape: &[u8]) -> bool {
    match escape {
        [b'/' | b'x', ..] => true,
        [b'u', b'd' | b'D', digit, ..] => !digit.is_ascii_digit() || *digit > b'7',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::SourceScan;

    fn is_too_deep(source: &str, nesting_max: usize) -> bool {
        SourceScan::new(source.as_bytes()).depth > nesting_max
    }

    /// T46
    #[test]
    fn brackets_of_every_kind_are_counted() {
        for (open, close) in [
            ("{a:", "}"),
            ("[", "]"),
            ("(", ")"),
            ("std.length(", ")"),
            ("[{a:(", ")}]"),
        ] {
            let brackets = open.chars().filter(|next| "{[(".contains(*next)).count();
            let nested = |times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
            assert!(!is_too_deep(&nested(200 / brackets), 200), "{open}");
            assert!(is_too_deep(&nested(200 / brackets + 1), 200), "{open}");
            assert!(is_too_deep(&open.repeat(100_000), 200), "{open} unclosed");
        }
    }

    #[test]
    fn brackets_in_strings_and_comments_are_not() {
        let many = "[".repeat(300);
        for source in [
            format!("'{many}'"),
            format!("\"{many}\""),
            format!("'\\'{many}'"),
            format!("\"\\\\\" + '{many}'"),
            format!("@'{many}''{many}'"),
            format!("@\"{many}\"\"{many}\""),
            format!("// {many}\n1"),
            format!("# {many}\n1"),
            format!("/* {many} \n {many} */ 1"),
            format!("|||\n  {many}\n\n    {many}\n|||"),
            format!("|||-\n\n\t{many}\n  |||"),
            format!("{{ a: |||\n    {many}\n  |||, b: '{many}' }}"),
        ] {
            assert!(!is_too_deep(&source, 200), "{source}");
        }
    }

    #[test]
    fn what_follows_a_string_or_comment_counts_again() {
        let many = "[".repeat(201);
        for before in [
            "'a'",
            "\"\\\"\"",
            "@'it''s'",
            "// '\n",
            "/* ' */",
            "|||\n  '\n|||",
            "|||\n  a\n||| + ",
            "a['b'] || ",
        ] {
            assert!(is_too_deep(&format!("{before}{many}"), 200), "{before}");
        }
    }

    #[test]
    fn a_text_that_never_ends_is_read_once() {
        for source in [
            "'", "\"\\", "/*", "|||", "|||\n", "|||\n  a", "@'", "@\"\"\"", "#", "/",
        ] {
            assert!(!is_too_deep(source, 200), "{source}");
        }
    }
}
