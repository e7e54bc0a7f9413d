//! The notation between `«` and `»` in the table.
//!
//! `«name»` is a value of the row. `«sink»` is an address that must get no connection. `«outside»` is a file outside
//! the repository. `«secret pem»` is a secret, and `«base64 pem»` the same secret in another encoding.
//! `«repeat 5000 ../»` is a repeated text, `«u 202e»` a character by its number, `«part 2 a|b»` the second of several texts.

use super::secrets::{self, ENCODINGS};
use std::collections::BTreeMap;

/// The values of placeholders, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceholderValues(BTreeMap<String, String>);

impl PlaceholderValues {
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }
}

/// Replaces all placeholders in a text. Values may contain placeholders, up to four levels deep.
pub(crate) fn expand(text: &str, values: &PlaceholderValues) -> String {
    let mut text = text.to_owned();
    for _ in 0..4 {
        if !text.contains('«') {
            break;
        }
        text = expand_once(&text, values);
    }
    text
}

/// Replaces the innermost placeholders.
fn expand_once(text: &str, values: &PlaceholderValues) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('»') {
        match before.rsplit_once('«') {
            Some((plain, word)) => {
                done.push_str(plain);
                done.push_str(&placeholder_value(word, values));
            }
            None => {
                done.push_str(before);
                done.push('»');
            }
        }
        rest = after;
    }
    done.push_str(rest);
    done
}

fn placeholder_value(word: &str, values: &PlaceholderValues) -> String {
    if let Some(value) = values.0.get(word) {
        return value.clone();
    }
    let (function, argument) = word.split_once(' ').unwrap_or((word, ""));
    match function {
        "repeat" => {
            let (times, what) = argument.split_once(' ').expect("how often and what");
            what.repeat(times.parse().expect("a number"))
        }
        "part" => {
            let (number, whole) = argument.split_once(' ').expect("which part and of what");
            let part = whole
                .split('|')
                .nth(number.parse::<usize>().expect("a number") - 1);
            part.expect("a part").to_owned()
        }
        "u" => {
            let number = u32::from_str_radix(argument, 16).expect("a number in hex");
            char::from_u32(number).expect("a character").to_string()
        }
        "secret" => secrets::value(argument).to_owned(),
        encoding if ENCODINGS.contains(&encoding) => secrets::encoded(encoding, secrets::value(argument)),
        _ => panic!("nothing is called «{word}»"),
    }
}

#[test]
fn words_nest_and_what_is_unknown_is_refused() {
    let mut values = PlaceholderValues::default();
    values.set("path", "a«repeat 3 «dots»»");
    values.set("dots", "../");
    assert_eq!(expand("x/«path»", &values), "x/a../../../");
    assert_eq!(expand("«u 41» » b", &values), "A » b");
    assert_eq!(expand("«part 2 x|y|z»", &values), "y");
    let unknown = std::panic::catch_unwind(|| expand("«nonsense»", &PlaceholderValues::default()));
    assert!(unknown.is_err());
}
