//! Finds literal secrets in Jsonnet: the entries of objects with the kind `Secret`, the arguments of functions that
//! create one, and the files that become their values. Other `Secret`s of a program are found after rendering.

use super::manifest::{SecretEntry, decoded};
use std::collections::HashSet;

/// Maximum nesting depth.
const DEPTH_MAX: usize = 128;

/// A token of a program: a word, a string or a punctuation mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    /// The string between its quotes, with escapes.
    Text(&'t str),
    Mark(u8),
}

/// The literal secrets in a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProgramSecrets {
    /// The entries of its `Secret`s.
    pub(super) entries: Vec<SecretEntry>,
    /// The files that are read for them, as written.
    pub(super) files: Vec<String>,
    /// The start positions of the strings that were taken, each with `true` if also decoded.
    seen: HashSet<(usize, bool)>,
}

/// Finds the literal secrets in a program.
pub(super) fn find_secrets(text: &str) -> ProgramSecrets {
    let tokens = tokens(text);
    let mut said = ProgramSecrets::default();
    let mut open: Vec<OpenBracket> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark(b'{' | b'(' | b'[') if open.len() < DEPTH_MAX => open.push(OpenBracket {
                at,
                is_secret: matches!(token, Token::Mark(b'('))
                    && makes_secret(tokens.get(..at).unwrap_or_default()),
            }),
            Token::Mark(b'}' | b')' | b']') => {
                if let Some(closed) = open.pop().filter(|open| open.is_secret) {
                    let inside = tokens.get(closed.at..at).unwrap_or_default();
                    match tokens.get(closed.at) {
                        Some(Token::Mark(b'{')) => collect_object(inside, &mut said),
                        _ => entries(inside, ValueEncoding::Either, &mut said),
                    }
                }
            }
            Token::Text("Secret") if is_kind(tokens.get(..at).unwrap_or_default()) => {
                if let Some(open) = open.last_mut() {
                    open.is_secret = true;
                }
            }
            _ => {}
        }
    }
    said
}

/// A bracket that is still open.
struct OpenBracket {
    at: usize,
    is_secret: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueEncoding {
    Plain,
    /// Plain or in base64.
    Either,
}

/// True if the tokens end with `kind:`.
fn is_kind(before: &[Token<'_>]) -> bool {
    let mut before = before
        .iter()
        .rev()
        .skip_while(|token| matches!(token, Token::Mark(b':')));
    matches!(before.next(), Some(Token::Word("kind") | Token::Text("kind")))
        && matches!(before.next(), None | Some(Token::Mark(b'{' | b',' | b';')))
}

/// True if the tokens end with the name of a function that creates a `Secret`, such as `k.core.v1.secret.new`.
fn makes_secret(before: &[Token<'_>]) -> bool {
    let mut names = before.iter().rev();
    let Some(Token::Word(function)) = names.next() else {
        return false;
    };
    let function = function.to_ascii_lowercase();
    let has_data = [
        "new",
        "withdata",
        "withstringdata",
        "withdatamixin",
        "withstringdatamixin",
    ];
    let path = names.take_while(|token| matches!(token, Token::Word(_) | Token::Mark(b'.')));
    let is_of_secret = || {
        path.take(8)
            .any(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case("secret")))
    };
    (has_data.contains(&function.as_str()) && is_of_secret())
        || ["secret", "newsecret", "opaquesecret"].contains(&function.as_str())
}

/// Collects the entries of an object that is a `Secret`, from its opening brace on.
fn collect_object(object: &[Token<'_>], said: &mut ProgramSecrets) {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(token) = object.get(at) {
        match token {
            Token::Mark(b'{' | b'(' | b'[') => depth += 1,
            Token::Mark(b'}' | b')' | b']') => depth = depth.saturating_sub(1),
            Token::Word(name @ ("data" | "stringData")) | Token::Text(name @ ("data" | "stringData"))
                if depth == 1 && is_field(object.get(at + 1..).unwrap_or_default()) =>
            {
                let value = value_of(object.get(at + 1..).unwrap_or_default());
                let data = match *name {
                    "data" => ValueEncoding::Either,
                    _ => ValueEncoding::Plain,
                };
                entries(value, data, said);
                at += value.len();
            }
            _ => {}
        }
        at += 1;
    }
}

/// True if the tokens after a name show that it is a field name.
fn is_field(after: &[Token<'_>]) -> bool {
    let mut after = after
        .iter()
        .skip_while(|token| matches!(token, Token::Mark(b'+' | b']')));
    matches!(after.next(), Some(Token::Mark(b':')))
}

/// Returns the tokens up to the end of a field's value.
fn value_of<'a, 't>(after: &'a [Token<'t>]) -> &'a [Token<'t>] {
    let mut depth = 0_usize;
    for (at, token) in after.iter().enumerate() {
        match token {
            Token::Mark(b'{' | b'(' | b'[') => depth += 1,
            Token::Mark(b'}' | b')' | b']') if depth > 0 => depth -= 1,
            Token::Mark(b'}' | b')' | b']') => return after.get(..at).unwrap_or_default(),
            Token::Mark(b',') if depth == 0 => return after.get(..at).unwrap_or_default(),
            _ => {}
        }
    }
    after
}

/// Collects the strings that are field values, each with its field name, and the files that are read for them.
fn entries(tokens: &[Token<'_>], data: ValueEncoding, said: &mut ProgramSecrets) {
    let mut name = "";
    let mut is_value = false;
    for (at, token) in tokens.iter().enumerate() {
        let follows = tokens.get(at + 1..).unwrap_or_default();
        match token {
            Token::Word(own) | Token::Text(own) if is_field(follows) => (name, is_value) = (own, true),
            Token::Mark(b',' | b'{') => is_value = false,
            Token::Text(text) => {
                let before = at.checked_sub(1).and_then(|before| tokens.get(before));
                let is_read = matches!(before, Some(Token::Word("importstr" | "importbin")));
                match is_read {
                    true if said.seen.insert((text.as_ptr() as usize, false)) => {
                        said.files.push((*text).to_owned())
                    }
                    true => {}
                    false if is_value => add_entry(name, text, data, said),
                    false => {}
                }
            }
            _ => {}
        }
    }
}

fn add_entry(name: &str, text: &str, data: ValueEncoding, said: &mut ProgramSecrets) {
    // A string inside several nested objects counts once.
    if !said
        .seen
        .insert((text.as_ptr() as usize, data == ValueEncoding::Either))
    {
        return;
    }
    let plain = unescaped(text);
    if data == ValueEncoding::Either {
        said.entries.push(decoded(name, &plain));
    }
    said.entries.push((name.to_owned(), plain));
}

/// Returns the value of a string literal.
fn unescaped(text: &str) -> String {
    let double = text.replace("\\'", "'");
    serde_json::from_str(&format!("\"{double}\"")).unwrap_or_else(|_| text.to_owned())
}

/// Returns the tokens of a program without comments. Any other text has tokens too.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        let length = match byte {
            b'#' => line(rest),
            b'/' if rest.starts_with("//") => line(rest),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            b'|' if rest.starts_with("|||") => block(rest, &mut tokens),
            b'@' if rest.starts_with("@'") || rest.starts_with("@\"") => {
                let inner = rest.get(2..).unwrap_or_default();
                let mark = rest.get(1..2).unwrap_or_default();
                let end = inner.find(mark).unwrap_or(inner.len());
                tokens.push(Token::Text(inner.get(..end).unwrap_or_default()));
                end + 3
            }
            b'\'' | b'"' => {
                let end = closing(rest, byte);
                tokens.push(Token::Text(rest.get(1..end).unwrap_or_default()));
                end + 1
            }
            _ if is_word(byte) => {
                let end = rest.bytes().take_while(|byte| is_word(*byte)).count();
                tokens.push(Token::Word(rest.get(..end).unwrap_or_default()));
                end
            }
            _ => {
                if byte.is_ascii_punctuation() {
                    tokens.push(Token::Mark(byte));
                }
                1
            }
        };
        at = text.ceil_char_boundary((at + length).min(text.len()));
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn line(rest: &str) -> usize {
    memchr::memchr(b'\n', rest.as_bytes()).map_or(rest.len(), |end| end + 1)
}

/// Returns the position of the quote that ends a string.
fn closing(rest: &str, mark: u8) -> usize {
    let mut is_escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            byte if byte == mark => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Reads a text block between `|||`.
fn block<'t>(rest: &'t str, tokens: &mut Vec<Token<'t>>) -> usize {
    let first = line(rest);
    let lines = rest.get(first..).unwrap_or_default();
    let mut end = 0;
    for line in lines.split_inclusive('\n') {
        if line.trim_start().starts_with("|||") {
            tokens.push(Token::Text(lines.get(..end).unwrap_or_default()));
            return first + end + (line.len() - line.trim_start().len()) + 3;
        }
        end += line.len();
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::{ProgramSecrets, find_secrets};

    fn of(text: &str) -> (Vec<String>, Vec<String>) {
        let ProgramSecrets {
            entries: held, files, ..
        } = find_secrets(text);
        let mut held: Vec<String> = held
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        held.dedup();
        (held, files)
    }

    #[test]
    fn a_secret_is_read_however_a_program_writes_it() {
        for (text, held, files) in [
            (
                "local k = 1; { a:: { kind: 'Secret', metadata: { name: 'not-this' }, stringData: { opens: 'one', \"b\": @'t\\wo' } } }",
                vec!["opens=one", "b=t\\wo"],
                vec![],
            ),
            (
                "local s = { data+: { [name]: 'x', password: std.base64('four') }, apiVersion: 'v1', 'kind': \"Secret\" }; s",
                vec!["name=x", "password=four"],
                vec![],
            ),
            (
                "{ kind: 'Secret', data: { key: std.base64(importstr 'own.txt'), other: 'b25l' } } // kind",
                vec!["other=one", "other=b25l"],
                vec!["own.txt"],
            ),
            (
                "local secret = k.core.v1.secret;\n{ s: secret.new('named', { user: 'a\\'b', block: |||\n    three\n  |||\n }) + secret.withStringData({ f: importstr '../f' }) }",
                vec!["user=a'b", "block=three", "block=    three\n"],
                vec!["../f"],
            ),
        ] {
            let (found, named) = of(text);
            assert_eq!(
                (found, named),
                (
                    held.into_iter().map(str::to_owned).collect(),
                    files.into_iter().map(str::to_owned).collect()
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_secret_holds_nothing() {
        for text in [
            "{ kind: 'ConfigMap', data: { a: 'b', c: importstr 'x' } }",
            "{ a: { kind: 'ConfigMap' }, data: { a: 'b' } } // kind: 'Secret'",
            "local f(kind) = if kind == 'Secret' then 1 else { data: { a: 'b' } }; f",
            "k.core.v1.configMap.new('a', { b: 'c' })",
            "{ kind: 'SealedSecret', data: { a: 'b' } }",
            "((((",
            "'",
            "\"\\",
            "|||",
            "@'",
            "/*",
            "ü'ü",
            "",
        ] {
            assert_eq!(of(text), (vec![], vec![]), "{text}");
        }
    }
}
