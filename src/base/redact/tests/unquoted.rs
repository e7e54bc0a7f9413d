//! Values without quotes in learnt files: passwords are hidden, and expressions and templates are shown.

use super::*;

fn learnt_and_shown(text: &str) -> String {
    let redactor = redactor(&[]);
    redactor.learn_file(None, text.as_bytes());
    redactor.redact(text).into_owned()
}

/// T87: if an expression were hidden, a patch of its file would not apply.
#[test]
fn ordinary_code_with_names_of_secrets_is_shown_as_it_is() {
    let mut changed = Vec::new();
    for line in [
        // Comments after an expression, and comments alone.
        "password: $._config.password, // from vault",
        "adminPassword: params.adminPassword, // TODO",
        "password: foo.bar, /* x */",
        "password: foo.bar, # of 2024",
        "password: null, // unset",
        "password: # set by the operator",
        "password: // set by the operator in 2024",
        "DB_PASSWORD= # set by the operator in 2024",
        "DB_PASSWORD=changeme # set by the operator",
        // Other fields on the same line.
        "password: $.db.password, user: $.db.user,",
        "\"password\": null, \"user\": \"app\", \"level\": 3},",
        "password: { name: db, key: place-42 },",
        "password: { secretKeyRef: { name: db-credentials-v2, key: password } }",
        "password: {",
        "password: {% if a %}{{ b }}{% endif %}",
        // Expressions.
        "password: self.password tailstrict,",
        "password: std.base64Decode(config.dbPassword),",
        "password: std.join('', [",
        "password: get_password(env, 2),",
        "  password=std.base64(params.dbPassword),",
        "password: if is_new then first_1 else second_2,",
        "password: if $.is_new then",
        "password: $._config.grafana + suffix,",
        "password: import 'secrets/password.libsonnet',",
        "password: (import 'secrets/all.libsonnet').password_2,",
        "password: error 'a password of 12 characters is needed',",
        "password: function(x) x.password_1,",
        "password: local it = 1; it,",
        "password: [x.password for x in $.all],",
        "password = random_password.db[0].result",
        "password = var.is_new ? var.first_1 : var.second_2",
        "token := os.Getenv(\"API_TOKEN1\")",
        "PGPASSWORD=$DB_PASSWORD",
        "PGPASSWORD=`cat /run/secrets/db 2>/dev/null`",
        // Tags and templates.
        "password: !Ref DbPassword",
        "password: !Ref DbPassword42",
        "password: !vault |",
        "password: {{ .Values.password | quote }}",
        "password: ((db_password))",
        "password: <your password goes here>",
        "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:Prod/Db",
        "password: arn:aws:secretsmanager:eu-west-1:123456789012:secret:Prod/Db-x7QkPz",
        // Prose.
        "- password: see the vault",
        "password: it is the one that the operator of the cluster has set",
        "secret: the name of the secret that holds it in 2024",
        "password:\n  # of 2024\n  key: a place 42",
    ] {
        for text in [format!("{line}\n"), format!("a: 1\r\n{line}\r\nb: 2\r\n")] {
            let shown = learnt_and_shown(&text);
            changed.extend((shown != text).then(|| format!("{text}{shown}")));
        }
    }
    assert_eq!(changed, Vec::<String>::new());
}

/// T87
#[test]
fn an_invented_secret_is_hidden_without_quotes_too() {
    let mut seen = Vec::new();
    for (line, secret) in [
        // Words that are operators in programs.
        ("password: made in china 42", "made in china 42"),
        ("password: rock for peace 85", "rock for peace 85"),
        ("password: new moon rising 7", "new moon rising 7"),
        ("password: important-thing of 42", "important-thing of 42"),
        ("password: if not now when 9", "if not now when 9"),
        ("password: blue - 42 + moon", "blue - 42 + moon"),
        // Brackets and apostrophes.
        ("password: p@ss(word)one", "p@ss(word)one"),
        ("password: abc(def)ghi", "abc(def)ghi"),
        ("DB_PASSWORD=abc(def)", "abc(def)"),
        ("- DB_PASSWORD=abc(def)", "abc(def)"),
        ("DB_PASSWORD=i<3kittens&dogs", "i<3kittens&dogs"),
        ("DB_PASSWORD=(blue moon 42)", "(blue moon 42)"),
        ("DB_PASSWORD={Xy7(kL9)mN2}", "{Xy7(kL9)mN2}"),
        ("password: {Xy7(kL9)mN2}", "{Xy7(kL9)mN2}"),
        ("DB_PASSWORD=|blue moon 42", "|blue moon 42"),
        ("password: it's five o'clock 5", "it's five o'clock 5"),
        // Names in quotes, and in container files.
        ("\"db-password\": blue moon 42", "blue moon 42"),
        ("ENV DB_PASSWORD=blue moon 42", "blue moon 42"),
        ("export DB_PASSWORD=blue moon 42", "blue moon 42"),
        ("- name: DB_PASSWORD\n  value: abc(def)ghi", "abc(def)ghi"),
        ("password:\n  # of the cellar\n  blue moon 42", "blue moon 42"),
        ("password: !!str blue moon 42", "blue moon 42"),
        ("password: &cellar blue moon 42", "blue moon 42"),
        // Comment characters that belong to the value.
        ("DB_PASSWORD=abc #Xy7(kL9)mN2?pQ4z", "abc #Xy7(kL9)mN2?pQ4z"),
        ("DB_PASSWORD=#blue moon 42", "#blue moon 42"),
        ("DB_PASSWORD=blue moon 42 # of the cellar", "blue moon 42"),
        ("password: blue moon 42 // of the cellar", "blue moon 42"),
        ("password: blue moon 42 # of the cellar", "blue moon 42"),
    ] {
        for text in [format!("{line}\n"), format!("a: 1\r\n{line}\r\nb: 2\r\n")] {
            let redactor = redactor(&[]);
            redactor.learn_file(None, text.as_bytes());
            for shown in [text, format!("<{secret}>")] {
                let hidden = redactor.redact(&shown).into_owned();
                let is_hidden = !hidden.contains(secret) && hidden.contains("⟦secret:");
                seen.extend((!is_hidden).then(|| format!("{line}: {hidden}")));
            }
        }
    }
    assert_eq!(seen, Vec::<String>::new());
}

/// T87: a bracket after a value may belong to the value or to its surroundings.
#[test]
fn a_value_in_brackets_is_hidden_with_and_without_them() {
    for (text, shown) in [
        (
            "x=$(curl https://example.com/?token=Xy7kL9mN2pQ4)",
            "x=$(curl https://example.com/?token=⟦secret:1⟧)",
        ),
        ("[token=Xy7kL9mN2pQ4]", "[token=⟦secret:1⟧]"),
        ("token: Xy7kL9mN2pQ4:5432", "token: ⟦secret:1⟧"),
        ("token: Xy7(kL9)mN2pQ4z", "token: ⟦secret:1⟧"),
        (
            "- name: TOKEN\n  value: Xy7kL9mN2pQ4)",
            "- name: TOKEN\n  value: ⟦secret:1⟧)",
        ),
    ] {
        assert_eq!(redactor(&[]).redact(text), shown);
        let learnt = redactor(&[]);
        learnt.learn_file(None, text.as_bytes());
        if text.contains("Xy7kL9mN2pQ4") {
            let elsewhere = learnt.redact("it is Xy7kL9mN2pQ4.").into_owned();
            assert!(!elsewhere.contains("Xy7kL9mN2pQ4"), "{text}: {elsewhere}");
        }
    }
    for text in [
        "secret: arn:aws:secretsmanager:eu-west-1:123456789012:secret:Prod/Db",
        "{ \"arn\": \"arn:aws:secretsmanager:eu-west-1:123456789012:secret:Prod/Db-x7QkPz\" }",
        "apiKey: std.base64Decode(params.apiKey)",
        "secret: https://Vault.example.com:8200/v1/Team/abc4d?x",
        "password: $(DB_PASSWORD_Prod2a)",
    ] {
        assert_eq!(redactor(&[]).redact(text), text);
    }
}

/// T93: lines that are expensive to scan. Quadratic work would take hours here.
#[test]
fn hostile_lines_are_scanned_as_fast_as_others() {
    use crate::base::redact::{patterns, unquoted};
    for part in [
        "f(",
        "a.b[",
        ")",
        "'",
        "x #",
        "x //",
        "if then ",
        "$.a, ",
        "{ a: ",
        "Xy7kL9mN2)",
    ] {
        let text = format!("password: {}\n", part.repeat(40_000 / part.len()));
        let mut bytes = 0;
        unquoted::find(&text, |secret| bytes += secret.len());
        patterns::find(&text, |secret| bytes += secret.len());
        assert!(bytes <= 4 * text.len(), "{part}");
    }
    let nested = format!("password: {}{}\n", "f(".repeat(10_000), ")".repeat(10_000));
    unquoted::find(&nested, |_| panic!("a program is a secret"));
}

/// T93: one long value gets no automaton table, which would take a kilobyte per byte.
#[test]
fn a_line_of_any_length_is_learnt() {
    for part in ["f(", ")", "Xy7(kL9)mN2"] {
        let value = part.repeat(200_000 / part.len());
        let learnt = redactor(&[]);
        learnt.learn_file(None, format!("password: {value}\n").as_bytes());
        let shown = learnt.redact(&value).into_owned();
        assert!(shown.len() < value.len(), "{part} is shown");
    }
}
