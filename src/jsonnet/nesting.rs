//! Looks at a source text before any parser does: how deeply its brackets nest. Parsers recurse, so
//! this is what keeps a small hostile file from being a deep stack. It reads strings and comments as
//! the language does and judges nothing else; a text that is not Jsonnet is the parser's to refuse.

/// Whether brackets nest more deeply than `nesting_max`.
pub(super) fn is_too_deep(source: &[u8], nesting_max: usize) -> bool {
    let mut scan = Scan { rest: source };
    let mut depth = 0_usize;
    while let Some(token) = scan.next() {
        match token {
            b'{' | b'[' | b'(' => {
                depth += 1;
                if depth > nesting_max {
                    return true;
                }
            }
            b'}' | b']' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

struct Scan<'a> {
    rest: &'a [u8],
}

impl Scan<'_> {
    /// The next byte that is not part of a string or comment.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.rest.first()?;
            match self.rest {
                [b'#', ..] | [b'/', b'/', ..] => self.skip_past(b"\n"),
                [b'/', b'*', ..] => {
                    self.skip(2);
                    self.skip_past(b"*/");
                }
                [b'|', b'|', b'|', ..] => self.skip_block(),
                [b'@', quote @ (b'"' | b'\''), ..] => {
                    let quote = *quote;
                    self.skip(2);
                    self.skip_verbatim(quote);
                }
                [quote @ (b'"' | b'\''), ..] => {
                    let quote = *quote;
                    self.skip(1);
                    self.skip_string(quote);
                }
                _ => {
                    self.skip(1);
                    return Some(byte);
                }
            }
        }
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

    fn skip_string(&mut self, quote: u8) {
        while let Some(at) = memchr::memchr2(quote, b'\\', self.rest) {
            let escape = self.rest.get(at) == Some(&b'\\');
            self.skip(at + if escape { 2 } else { 1 });
            if !escape {
                return;
            }
        }
        self.rest = &[];
    }

    /// In a verbatim string a doubled quote stands for one.
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

    /// A text block: it ends at the first line that is not empty and lacks the indentation of its
    /// first line.
    fn skip_block(&mut self) {
        self.skip(3);
        self.skip_past(b"\n");
        while let [b'\n', ..] | [b'\r', b'\n', ..] = self.rest {
            self.skip_past(b"\n");
        }
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
        let indentation: Vec<u8> = self.rest.iter().take_while(blank).copied().collect();
        if indentation.is_empty() {
            // Not a text block the language knows; its parser says so.
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

#[cfg(test)]
mod tests {
    fn is_too_deep(source: &str, nesting_max: usize) -> bool {
        super::is_too_deep(source.as_bytes(), nesting_max)
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
