//! Splits a Jsonnet file into the tokens needed to recognize imports and calls: words, strings and signs. Comments
//! produce no tokens, and an import inside a string is not recognized.

/// A token of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImportToken<'a> {
    /// A keyword, an identifier, or the digits of a number.
    Word(&'a str),
    /// A string literal of any form, with its value.
    Text(String),
    /// Any other character.
    Sign(char),
}

/// Iterates over the tokens of a file. A file that is not valid Jsonnet has tokens too.
pub(super) struct ImportLexer<'a> {
    rest: &'a str,
}

impl<'a> ImportLexer<'a> {
    pub(super) fn new(program: &'a str) -> Self {
        Self { rest: program }
    }

    fn skip_blank(&mut self) {
        loop {
            let start = self.rest.len();
            self.rest = self.rest.trim_start_matches([' ', '\t', '\r', '\n']);
            if self.rest.starts_with('#') || self.rest.starts_with("//") {
                self.take_until("\n");
            } else if let Some(comment) = self.rest.strip_prefix("/*") {
                self.rest = comment;
                self.take_until("*/");
            }
            if self.rest.len() == start {
                return;
            }
        }
    }

    /// Takes the text before `end` and skips `end`. Takes the whole rest if `end` is missing.
    fn take_until(&mut self, end: &str) -> &'a str {
        let (before, after) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        self.rest = after;
        before
    }

    fn next_char(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn word(&mut self) -> &'a str {
        let is_end = |character: char| !is_word(character);
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        word
    }

    /// Reads the rest of a quoted string.
    fn quoted(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(character) = self.next_char() {
            match character {
                '\\' => {
                    let escaped = self.escaped();
                    text.extend(escaped);
                }
                character if character == quote => break,
                character => text.push(character),
            }
        }
        text
    }

    fn escaped(&mut self) -> Option<char> {
        Some(match self.next_char()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => return Some(self.escaped_unicode()),
            other => other,
        })
    }

    fn escaped_unicode(&mut self) -> char {
        let first = self.code_unit().unwrap_or_default();
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
        }
        let Some(rest) = self.rest.strip_prefix("\\u") else {
            return char::REPLACEMENT_CHARACTER;
        };
        self.rest = rest;
        let second = self.code_unit().unwrap_or_default();
        let low = second.wrapping_sub(0xdc00);
        if low > 0x3ff {
            return char::REPLACEMENT_CHARACTER;
        }
        char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn code_unit(&mut self) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        let unit = u32::from_str_radix(digits, 16).ok()?;
        self.rest = rest;
        Some(unit)
    }

    /// Reads the rest of a verbatim string, whose only escape is a doubled quote.
    fn verbatim(&mut self, quote: char) -> String {
        let mut text = String::new();
        while let Some(character) = self.next_char() {
            if character == quote {
                match self.rest.strip_prefix(quote) {
                    Some(rest) => self.rest = rest,
                    None => break,
                }
            }
            text.push(character);
        }
        text
    }

    /// Reads the rest of a text block between `|||`: its lines without the indentation of the first line.
    fn block(&mut self) -> String {
        let is_chomped = self.rest.starts_with('-');
        self.take_until("\n");
        let first = self.rest.lines().find(|line| !line.trim().is_empty());
        let indentation: String = first.map_or_else(String::new, blanks);
        let mut text = String::new();
        while !self.rest.is_empty() {
            let before_line = self.rest;
            let line = self.take_until("\n");
            if let Some(line) = line
                .strip_prefix(indentation.as_str())
                .filter(|_| !indentation.is_empty())
            {
                text.push_str(line);
            } else if !line.trim_end_matches('\r').is_empty() {
                // The end of the block. The program continues on this line.
                if line.trim_start().starts_with("|||") {
                    self.rest = before_line.split_once("|||").map_or("", |(_, after)| after);
                }
                break;
            }
            text.push('\n');
        }
        if is_chomped {
            text.truncate(text.trim_end_matches('\n').len());
        }
        text
    }
}

impl<'a> Iterator for ImportLexer<'a> {
    type Item = ImportToken<'a>;

    fn next(&mut self) -> Option<ImportToken<'a>> {
        self.skip_blank();
        if self.rest.starts_with(is_word) {
            return Some(ImportToken::Word(self.word()));
        }
        if let Some(rest) = self.rest.strip_prefix("|||") {
            self.rest = rest;
            return Some(ImportToken::Text(self.block()));
        }
        if let Some(rest) = self.rest.strip_prefix('@')
            && let Some(quote) = rest.chars().next().filter(is_quote)
        {
            self.rest = rest;
            self.next_char();
            return Some(ImportToken::Text(self.verbatim(quote)));
        }
        let first = self.next_char()?;
        Some(match is_quote(&first) {
            true => ImportToken::Text(self.quoted(first)),
            false => ImportToken::Sign(first),
        })
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn is_quote(character: &char) -> bool {
    matches!(character, '"' | '\'')
}

fn blanks(line: &str) -> String {
    line.chars()
        .take_while(|character| matches!(character, ' ' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{ImportLexer, ImportToken};

    fn texts(program: &str) -> Vec<String> {
        let texts = ImportLexer::new(program).filter_map(|token| match token {
            ImportToken::Text(text) => Some(text),
            ImportToken::Word(_) | ImportToken::Sign(_) => None,
        });
        texts.collect()
    }

    #[test]
    fn texts_are_what_the_program_sees() {
        for (program, expected) in [
            (r#""a\"b" 'c"d'"#, vec!["a\"b", "c\"d"]),
            (r#"'\u0061\n\\' "\ud83d\ude80""#, vec!["a\n\\", "\u{1f680}"]),
            (r#"@'it''s \n' @"a""b""#, vec!["it's \\n", "a\"b"]),
            ("|||\n  a\n\n    b\n|||.x 'y'", vec!["a\n\n  b\n", "y"]),
            ("|||-\n\ta\n ||| + 'y'", vec!["a", "y"]),
            ("|||\n  a ||| b\n|||", vec!["a ||| b\n"]),
            (
                r#"'\ud83d' '\ud83dx' '\uZZZZ'"#,
                vec!["\u{fffd}", "\u{fffd}x", "\0ZZZZ"],
            ),
        ] {
            assert_eq!(texts(program), expected, "{program}");
        }
    }

    #[test]
    fn comments_are_no_tokens() {
        let program = "# 'a'\n// 'b'\n/* 'c'\n 'd' */ 'e' /**/ # 'f' */\n'g' // 'h'";
        assert_eq!(texts(program), ["e", "g"]);
        assert_eq!(texts("'http://x' + \"/* y */\""), ["http://x", "/* y */"]);
    }

    #[test]
    fn what_never_ends_ends_with_the_file() {
        for program in [
            "'a", "\"a\\", "@'a", "|||\n  a", "|||", "/* a", "// a", "'\\u12", "@", "\u{e9}",
        ] {
            assert!(ImportLexer::new(program).count() <= 1, "{program:?}");
        }
        assert_eq!(
            ImportLexer::new("a.b_1(2)").collect::<Vec<_>>(),
            [
                ImportToken::Word("a"),
                ImportToken::Sign('.'),
                ImportToken::Word("b_1"),
                ImportToken::Sign('('),
                ImportToken::Word("2"),
                ImportToken::Sign(')'),
            ]
        );
    }
}
