//! Values and files that are secret because of their place.

use super::*;

fn learned(text: &str) -> Redactor {
    let redactor = redactor(&[]);
    redactor.learn_file(None, text.as_bytes());
    redactor
}

fn path(text: &str) -> RepoPath {
    RepoPath::parse(text).unwrap()
}

#[test]
fn a_value_below_its_name_is_behind_it() {
    let secret = "calm-river-stones-58";
    for text in [
        format!("password: |\n  {secret}\n"),
        format!("- db_password: >-\r\n    {secret}\r\n"),
        format!("a:\n  \"password\":\n    '{secret}'\n"),
        format!("{{ password: |||\n    {secret}\n  ||| }}"),
    ] {
        assert_eq!(
            learned(&text).redact(&format!("<{secret}>")),
            "<⟦secret:1⟧>",
            "{text}"
        );
    }
    for text in [
        "password:\n  valueFrom:\n    secretKeyRef: { name: db-credentials-v2 }\n",
        "tokens:\n  - first-of-all-1\n",
        "secret: |\n  See the page about how secrets are made here.\n",
    ] {
        assert_eq!(learned(text).redact(text), text);
    }
}

#[test]
fn a_file_is_a_secret_where_configuration_reads_it_as_one() {
    for text in [
        "{ password: importstr '../keys/colour' }",
        "{ api_token:: std.rstripChars(importstr '../keys/colour', '\\n') }",
        "local x = 1; { kind: 'Secret', data: { x: std.base64(importstr './keys/colour') } }",
        "k.core.v1.secret.new('a', { x: importstr 'keys/colour' })",
        "secretGenerator:\n- name: a\n  files:\n  - x=keys/colour\n",
        "secretGenerator:\n- name: a\n  envs: [colour]\n",
        "kind: Secret\ndata:\n  x: {{ .Files.Get \"colour\" | b64enc }}\n",
        "token = { file = \"../keys/colour\" }",
        "password_file: keys/colour\n",
    ] {
        let redactor = learned(text);
        assert!(redactor.is_secret_file(&path("a/keys/colour")), "{text}");
        assert!(!redactor.is_secret_file(&path("a/keys/other")), "{text}");
    }
    for text in [
        "{ level: importstr 'keys/colour' }",
        "local x = 1; { kind: 'ConfigMap', data: { x: importstr 'keys/colour' } }",
        "configMapGenerator:\n- name: a\n  files: [keys/colour]\n",
        "kind: ConfigMap\ndata:\n  x: {{ .Files.Get \"keys/colour\" }}\n",
    ] {
        assert!(!learned(text).is_secret_file(&path("keys/colour")), "{text}");
    }
    for (name, is_one) in [
        ("a/db-password", true),
        ("TOKEN.txt", true),
        (".htpasswd", true),
        ("secret.md", false),
        ("tokens", false),
    ] {
        assert_eq!(redactor(&[]).is_secret_file(&path(name)), is_one, "{name}");
    }
}

#[test]
fn a_file_that_is_a_secret_is_one_in_all_its_lines() {
    let redactor = redactor(&[]);
    redactor.learn_named_file(b"# of the database\nadmin:blue-moon-42\nDB_PASS='green-moon-43'\ninfo\n");
    let shown = redactor.redact("blue-moon-42 green-moon-43 info # of the database");
    assert!(
        !shown.contains("moon") && shown.ends_with("info # of the database"),
        "{shown}"
    );
    let public = format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        KEY_LINES.join("\n")
    );
    let certificate = super::redactor(&[]);
    certificate.learn_named_file(public.as_bytes());
    assert_eq!(certificate.redact(&public), public);
}
