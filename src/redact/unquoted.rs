//! Values without quotes behind a name that says that they are secrets, up to the end of their line: in YAML, in
//! properties and in files of environment variables they may hold spaces and any character.

use super::judge::{self, Place};
use regex::Regex;
use std::sync::LazyLock;

/// Characters of values that are found wherever they stand, and not only at the end of a line.
const PLAIN: &[u8] = b"+/=_.~!@#$%^&*-";
/// Words that a value of a program begins with.
const BEGIN_CODE: [&str; 12] = [
    "if ", "local ", "import", "error ", "function", "assert ", "not ", "new ", "await ", "lambda ", "func(",
    "return ",
];
/// Operators between the parts of a value that a program computes.
const OPERATORS: [&str; 14] = [
    "+", "-", "*", "/", "%", "==", "!=", "||", "&&", "?", "then", "else", "for", "in",
];
/// Characters that programs and templates have more often than secrets.
const BRACKETS: [char; 8] = ['(', ')', '[', ']', '{', '}', '<', '>'];
/// Names of algorithms, whose digits are none of a secret.
const ALGORITHMS: [&str; 9] = [
    "base64", "base32", "sha256", "sha512", "sha1", "md5", "utf8", "oauth2", "k8s",
];

/// A name with its value on the same line, on the next one, and as an entry of the environment of a container.
static LINES: LazyLock<[Regex; 3]> = LazyLock::new(compiled);

#[expect(
    clippy::expect_used,
    reason = "the expressions are constants, and a test compiles them"
)]
fn compiled() -> [Regex; 3] {
    let words = super::source::WORDS;
    let name = format!(r"([a-z0-9_.-]*(?:{words}))");
    let value = r#"([^\s"'|>{][^\r\n]*)\r?$"#;
    let begin = r"(?im)^[+-]?[ \t]*(?:- +|export +|set +)?";
    let below = r"\r?\n[+-]?[ \t]+";
    [
        format!(r"{begin}{name}[ \t]*(?::{{1,3}}|=)[ \t]*{value}"),
        format!(r"{begin}{name}:[ \t]*{below}{value}"),
        format!(
            r#"{begin}["']?name["']?:[ \t]*["']?{name}["']?,?[ \t]*{below}["']?value["']?:[ \t]*{value}"#
        ),
    ]
    .map(|line| Regex::new(&line).expect("an expression compiles"))
}

/// Reports the secrets of such values that are no plain word: the whole value, and each part of it that is a secret by
/// itself.
pub(super) fn find<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    let lines = LINES.iter().flat_map(|line| line.captures_iter(text));
    for captures in lines {
        let (Some(name), Some(value)) = (captures.get(1), captures.get(2)) else {
            continue;
        };
        let (name, value) = (name.as_str(), without_comment(value.as_str()));
        if value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte))
        {
            continue;
        }
        if is_code(value) {
            continue;
        }
        let is_random = |part: &&str| part.len() >= 8 && judge::is_random(&without_algorithms(part));
        let random: Vec<&str> = value.split_whitespace().filter(is_random).collect();
        let is_made_up = || !value.contains(BRACKETS) && judge::is_secret(Place::Named(name), value);
        if !random.is_empty() || is_made_up() {
            found(value);
        }
        random.into_iter().for_each(&mut found);
    }
}

fn without_comment(value: &str) -> &str {
    let value = value.split(" #").next().unwrap_or_default();
    value.trim_end().trim_end_matches([',', ';'])
}

/// True for what a program computes: texts in quotes, operators, and calls of what has a name.
fn is_code(value: &str) -> bool {
    let is_quoted = ['"', '\''].iter().any(|quote| value.matches(*quote).count() > 1);
    let is_call = || {
        let begin = value.split(['(', '[']).next().unwrap_or_default();
        value.ends_with([')', ']'])
            && begin.len() < value.len()
            && begin.starts_with(|char: char| char.is_ascii_alphabetic() || "_$".contains(char))
            && !judge::is_random(&without_algorithms(value))
    };
    // The value of a map, and no text.
    let is_map = value.starts_with("- ")
        || value
            .split_whitespace()
            .next()
            .is_some_and(|word| word.ends_with(':'));
    is_quoted
        || is_map
        || BEGIN_CODE.iter().any(|word| value.starts_with(word))
        || value.split(' ').any(|part| OPERATORS.contains(&part))
        || is_call()
}

fn without_algorithms(part: &str) -> String {
    let mut part = part.to_owned();
    for name in ALGORITHMS {
        part = part.replace(name, "");
    }
    part
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
    fn what_a_program_computes_and_what_is_written_for_people_is_none() {
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
