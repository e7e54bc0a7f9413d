//! The mutations that damage a text.

use proptest::prelude::*;

/// The inserted texts. Many keep the program valid, and the rest break it.
const INSERTED_TEXTS: [&str; 44] = [
    " ",
    "\n",
    "\n\n\n\n",
    "\t",
    "\r\n",
    "/* c */",
    "// c\n",
    "# c\n",
    "/*\n  c\n*/",
    "(",
    ")",
    "((",
    "))",
    "[",
    "]",
    "{",
    "}",
    ",",
    ";",
    ":",
    "::",
    "+",
    "-",
    "!",
    "$",
    "@'",
    "'",
    "\"",
    "|||",
    "|||\n  x\n|||",
    "\\",
    "\\u",
    "0",
    "1_",
    "é",
    "🚀",
    "\u{85}",
    "\0",
    "local x = 1;",
    "assert true;",
    "if 1 then ",
    "in super",
    "for x in []",
    "import 'x'",
];

/// One mutation. Positions are fractions of the text in units of 1/65,536.
#[derive(Clone, Debug)]
pub(super) enum Mutation {
    /// Bytes are removed.
    Lose { at: u16, bytes: u8 },
    /// A byte is changed.
    Change { at: u16, byte: u8 },
    /// A text is inserted.
    Put { at: u16, what: usize },
    /// A token, or the text between two tokens, is removed.
    LoseToken { at: u16 },
    /// A token is repeated at another position.
    Repeat { at: u16, to: u16 },
    /// Two tokens are swapped.
    Swap { one: u16, other: u16 },
    /// A text is inserted before a token.
    PutBefore { at: u16, what: usize },
    /// A token is put in parentheses.
    Wrap { at: u16, depth: u8 },
    /// The text is truncated.
    End { at: u16 },
}

pub(super) fn mutation() -> impl Strategy<Value = Mutation> {
    let what = || 0..INSERTED_TEXTS.len();
    prop_oneof![
        1 => (any::<u16>(), 1..8_u8).prop_map(|(at, bytes)| Mutation::Lose { at, bytes }),
        1 => (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Mutation::Change { at, byte }),
        1 => (any::<u16>(), what()).prop_map(|(at, what)| Mutation::Put { at, what }),
        1 => any::<u16>().prop_map(|at| Mutation::LoseToken { at }),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(at, to)| Mutation::Repeat { at, to }),
        1 => (any::<u16>(), any::<u16>()).prop_map(|(one, other)| Mutation::Swap { one, other }),
        // The first ones keep the text valid Jsonnet.
        6 => (any::<u16>(), 0..9_usize).prop_map(|(at, what)| Mutation::PutBefore { at, what }),
        1 => (any::<u16>(), what()).prop_map(|(at, what)| Mutation::PutBefore { at, what }),
        2 => (any::<u16>(), 1..40_u8).prop_map(|(at, depth)| Mutation::Wrap { at, depth }),
        1 => any::<u16>().prop_map(|at| Mutation::End { at }),
    ]
}

pub(super) fn mutated(text: String, mutations: &[Mutation]) -> String {
    mutations.iter().fold(text, one)
}

fn one(text: String, mutation: &Mutation) -> String {
    let place = |at: u16, of: usize| usize::from(at) * of / 65_536;
    let mut bytes = text.clone().into_bytes();
    let mut tokens: Vec<&str> = tokens(&text);
    match *mutation {
        Mutation::Lose { at, bytes: count } => {
            let start = place(at, bytes.len());
            let end = bytes.len().min(start + usize::from(count));
            bytes.drain(start..end);
            return whole(&bytes);
        }
        Mutation::Change { at, byte } => {
            let at = place(at, bytes.len());
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            return whole(&bytes);
        }
        Mutation::Put { at, what } => {
            let at = place(at, bytes.len() + 1);
            bytes.splice(at..at, INSERTED_TEXTS[what].bytes());
            return whole(&bytes);
        }
        Mutation::End { at } => {
            bytes.truncate(place(at, bytes.len() + 1));
            return whole(&bytes);
        }
        _ if tokens.is_empty() => return text,
        Mutation::LoseToken { at } => {
            tokens.remove(place(at, tokens.len()));
        }
        Mutation::Repeat { at, to } => {
            let token = tokens[place(at, tokens.len())];
            tokens.insert(place(to, tokens.len() + 1), token);
        }
        Mutation::Swap { one, other } => {
            let (one, other) = (place(one, tokens.len()), place(other, tokens.len()));
            tokens.swap(one, other);
        }
        Mutation::PutBefore { at, what } => tokens.insert(place(at, tokens.len() + 1), INSERTED_TEXTS[what]),
        Mutation::Wrap { at, depth } => {
            let at = place(at, tokens.len());
            let (open, close) = ("(".repeat(usize::from(depth)), ")".repeat(usize::from(depth)));
            let wrapped = format!("{open}{}{close}", tokens[at]);
            tokens[at] = &wrapped;
            return tokens.concat();
        }
    }
    tokens.concat()
}

/// Splits a text into names and numbers, spaces, and single other characters. That is close enough to tokens for
/// mutations.
fn tokens(text: &str) -> Vec<&str> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        c if c.is_whitespace() => 2,
        _ => 0,
    };
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match kind(first) {
            0 => first.len_utf8(),
            same => rest.find(|c| kind(c) != same).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token);
        rest = after;
    }
    tokens
}

/// Converts bytes to text, because a program only ever receives text.
fn whole(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns true if the formatter of go-jsonnet, and so ours, certainly does not change its own output. It sometimes
/// does: it moves some comments again, removes parentheses two at a time, and aligns the parts of a comprehension
/// twice.
pub(super) fn is_format_stable(text: &str) -> bool {
    let dense: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    !["//", "#", "/*", "(((", "for"]
        .iter()
        .any(|sign| dense.contains(sign))
}
