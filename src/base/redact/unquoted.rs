//! Values without quotes after a telling name, up to the end of the line. In YAML, properties and environment files
//! they may contain spaces and any character.

use super::classifier::{self, ValueContext};
use super::code::{LineKind, is_code, is_random};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Characters of values that are found at any position, not only at the end of a line.
const PLAIN: &[u8] = b"+/=_.~!@#$%^&*-";
/// Starts of a comment after a space.
const COMMENTS: [&str; 3] = ["#", "//", "/*"];

/// A name with its value on the same line, on the next line, or in an entry of a container's environment.
static LINES: LazyLock<[Regex; 3]> = LazyLock::new(compiled);
/// YAML marks before a string: an anchor, and tags for strings.
static MARKS: LazyLock<Regex> =
    LazyLock::new(|| expression(r"\A(?:&[\w.-]+|!!?(?:str|binary|unsafe)|!)[ \t]+"));
/// Any other tag. The text after it is only a reference to the value.
static TAG: LazyLock<Regex> = LazyLock::new(|| expression(r"\A!{1,2}[A-Za-z][A-Za-z:._/-]*(?:[ \t]|\z)"));

fn compiled() -> [Regex; 3] {
    let words = super::source::WORDS;
    let name = format!(r"(?<name>[a-z0-9_.-]*(?:{words}))");
    let value = r#"(?<value>[^\s"'][^\r\n]*)\r?$"#;
    let begin = r"(?im)^(?<begin>[+-]?[ \t]*(?:- +|(?:export|set|env|arg) +)?)";
    let below = r"(?:#[^\r\n]*)?\r?\n(?:[+-]?[ \t]*#[^\r\n]*\n)*[+-]?[ \t]+";
    [
        format!(r#"{begin}["']?{name}["']?(?<sign>[ \t]*(?::=|:{{1,3}}|=)[ \t]*){value}"#),
        format!(r#"{begin}["']?{name}["']?:[ \t]*{below}{value}"#),
        format!(
            r#"{begin}["']?name["']?:[ \t]*["']?{name}["']?,?[ \t]*{below}["']?value["']?(?<sign>:[ \t]*){value}"#
        ),
    ]
    .map(|line| expression(&line))
}

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
fn expression(text: &str) -> Regex {
    Regex::new(text).expect("an expression compiles")
}

/// Reports such values that are secrets and contain more than plain characters: the whole value, and each part that
/// is a secret on its own.
pub(super) fn find<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    for captures in LINES.iter().flat_map(|line| line.captures_iter(text)) {
        let (Some(name), Some(value)) = (captures.name("name"), captures.name("value")) else {
            continue;
        };
        for value in values(&captures, value.as_str()) {
            if value.bytes().all(is_plain) {
                continue;
            }
            let random = value
                .split_whitespace()
                .filter(|part| is_random(part) && !classifier::is_reference(part));
            let random: Vec<&str> = random.collect();
            let is_made_up =
                !is_wording(value) && classifier::is_secret(ValueContext::AfterName(name.as_str()), value);
            if !random.is_empty() || is_made_up {
                found(value);
            }
            random.into_iter().for_each(&mut found);
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || PLAIN.contains(&byte)
}

/// Returns the possible values of a line: none for an expression, and two if the end of the line may be a comment
/// or part of the value.
fn values<'t>(captures: &Captures<'t>, value: &'t str) -> Vec<&'t str> {
    let sign = captures.name("sign").map(|sign| sign.as_str());
    let line = line_kind(captures.name("begin").map_or("", |begin| begin.as_str()), sign);
    let is_yaml = sign.is_none_or(|sign| sign.contains(':'));
    let value = match MARKS.find(value) {
        Some(mark) if is_yaml => value.get(mark.end()..).unwrap_or_default(),
        _ => value,
    };
    let is_block = value.starts_with(['|', '>']) || TAG.is_match(value);
    // The value is a map or a list.
    let is_inner = || {
        let first = value.split_whitespace().next().unwrap_or_default();
        sign.is_none() && (first == "-" || first.ends_with(':'))
    };
    if is_yaml && (is_block || is_inner()) {
        return Vec::new();
    }
    let is_apart = line == LineKind::Program || sign.is_none_or(|sign| sign.ends_with([' ', '\t']));
    let is_comment = is_apart && COMMENTS.iter().any(|comment| value.starts_with(comment));
    if is_comment || is_code(line, trimmed(value)) {
        return Vec::new();
    }
    let before = |comment: &str| {
        let at = value.match_indices(comment).map(|(at, _)| at);
        let mut at = at.filter(|at| {
            value
                .get(..*at)
                .is_some_and(|before| before.ends_with([' ', '\t']))
        });
        at.next().and_then(|at| value.get(..at)).map(trimmed)
    };
    let before = COMMENTS.map(before);
    if before.iter().flatten().any(|before| is_code(line, before)) {
        return Vec::new();
    }
    match before {
        [Some(before), ..] if is_yaml => vec![before],
        _ => {
            let before = before.into_iter().flatten();
            std::iter::once(trimmed(value)).chain(before).collect()
        }
    }
}

/// Returns the kind of a line. `NAME=` is a line of an environment file, unless it is indented like an argument of
/// a call.
fn line_kind(begin: &str, sign: Option<&str>) -> LineKind {
    let before = begin.strip_prefix(['+', '-']).unwrap_or(begin);
    let is_indented = before.len() > 1 && before.trim().is_empty();
    match sign == Some("=") && !is_indented {
        true => LineKind::Environment,
        false => LineKind::Program,
    }
}

fn trimmed(value: &str) -> &str {
    value.trim_end().trim_end_matches([',', ';'])
}

/// True for words without digits, which are prose.
fn is_wording(value: &str) -> bool {
    value.split_whitespace().all(|word| {
        let word = word.trim_end_matches(['.', ',', ';', ':']);
        COMMENTS.contains(&word) || word.chars().all(char::is_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::find;

    fn found(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        find(text, |secret| all.push(secret));
        all
    }

    /// T87
    #[test]
    fn a_value_without_quotes_is_a_secret_up_to_the_end_of_its_line() {
        for (text, secrets) in [
            ("DB_PASSWORD=Xy7(kL9)mN2?pQ4z\n", &["Xy7(kL9)mN2?pQ4z"][..]),
            ("password: aB3:cD4:xyz123Q9", &["aB3:cD4:xyz123Q9"]),
            (
                "  password: blue moon 42   # of the cellar\r\n",
                &["blue moon 42"],
            ),
            ("+export ADMIN_PASSWD=p[a]q7Rk2ZpX;\n", &["p[a]q7Rk2ZpX"]),
            (
                "password = q7Rk2ZpX 9vTn4WbY6mLc\n",
                &["q7Rk2ZpX 9vTn4WbY6mLc", "q7Rk2ZpX", "9vTn4WbY6mLc"],
            ),
            ("- passphrase: größer als 7\n", &["größer als 7"]),
            ("- name: DB_PASSWORD\n  value: blue moon 42\n", &["blue moon 42"]),
            ("password:\n  blue moon 42\n", &["blue moon 42"]),
            ("api_token: a1B2|c3D4?e5F6<g7H8\n", &["a1B2|c3D4?e5F6<g7H8"]),
        ] {
            let mut seen = found(text);
            // A value of one part is reported as both.
            seen.dedup();
            assert_eq!(seen, secrets, "{text}");
        }
    }

    #[test]
    fn computed_values_and_prose_are_not_taken_for_secrets() {
        for text in [
            "password: std.base64Decode(config.dbPassword),\n",
            "password: if is_new then $.first else $.second,\n",
            "password: $._config.grafana + suffix,\n",
            "password: import 'secrets/password.libsonnet',\n",
            "token := os.Getenv(\"API_TOKEN1\")\n",
            "password: {{ .Values.password | quote }}\n",
            "password: <your password goes here>\n",
            "secret: the name of the secret that holds it\n",
            "password: it is the one that the operator of the cluster has set\n",
            "password:\n  valueFrom: { name: the one 42 }\n",
            "password:\n  key: a place 42\n",
            "token: q7Rk2ZpX9vTn4WbY\n",
            "a password: see below for more\n",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }
}
