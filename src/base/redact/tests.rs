//! Secrets are hidden everywhere, and configuration stays readable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::string_slice)]

use super::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn redactor(values: &[&str]) -> Redactor {
    Redactor::new(values.iter().map(|value| Secret::new((*value).to_owned())))
}

mod bounds;
mod places;
mod unquoted;

const LIVE: &str = "s3cr3t/Value+\"1\"&<x>";

#[test]
fn a_live_value_has_one_number_in_every_encoding() {
    let redactor = redactor(&[LIVE]);
    let json = serde_json::Value::from(LIVE).to_string();
    let hex = hex::encode(LIVE);
    let forms = [
        LIVE.to_owned(),
        STANDARD.encode(LIVE),
        URL_SAFE.encode(LIVE),
        hex.to_uppercase(),
        hex,
        "s3cr3t%2FValue%2B%221%22%26%3Cx%3E".to_owned(),
        "s3cr3t%2fValue%2b%221%22%26%3cx%3e".to_owned(),
        "s3cr3t/Value+\"1\"&amp;&lt;x&gt;".to_owned(),
    ];
    for form in &forms {
        let redacted = redactor.redact(form);
        assert!(redacted.starts_with("⟦secret:1⟧"), "{form}: {redacted}");
    }
    assert_eq!(redactor.redact(&json), "\"⟦secret:1⟧\"");
}

/// T87: a value inside a longer base64 text, such as `user:token` of basic authorization.
#[test]
fn a_live_value_is_found_at_every_offset_of_base64() {
    let redactor = redactor(&["abcdefghij0123"]);
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "\n", "xy", "xyz"] {
            let encoded = STANDARD.encode(format!("{before}abcdefghij0123{after}"));
            let redacted = redactor.redact(&encoded);
            assert!(
                redacted.contains("⟦secret:1⟧"),
                "{before:?} {after:?}: {redacted}"
            );
        }
    }
}

#[test]
fn overlapping_values_are_both_gone() {
    let redactor = redactor(&["abcdefgh", "hijklmnopqrstuvwxyz"]);
    assert_eq!(redactor.redact("<abcdefghijklmnopqrstuvwxyz>"), "<⟦secret:1⟧>");
}

#[test]
fn values_too_short_to_tell_from_text_are_left_alone() {
    assert_eq!(redactor(&["main"]).redact("the main branch"), "the main branch");
}

/// T87
#[test]
fn usual_secrets_are_recognised_unannounced() {
    let key = "q7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe";
    let cases = [
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{key}{key}\n-----END RSA PRIVATE KEY-----"
        ),
        format!("-----BEGIN PRIVATE KEY-----\\n{key}{key}\\n-----END PRIVATE KEY-----"),
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{key}\n{key}\n"),
        "AKIAQ7RK2ZPX9VTN4WBY".to_owned(),
        "ASIAQ7RK2ZPX9VTN4WBY".to_owned(),
        format!("ghp_{key}abcd"),
        format!("ghs_{key}abcd"),
        format!("gho_{key}abcd"),
        format!("github_pat_{key}"),
        format!("glpat-{key}"),
        format!("drydock_{key}mPx-8_rTy2w"),
        format!("xoxb-1234567890-{key}"),
        format!("xoxp-1234567890-{key}"),
        format!("xapp-1-A012-{key}"),
        format!("123456789:AA{key}a"),
        format!("sk-ant-api03-{key}"),
        format!("sk-proj-{key}"),
        "sk-or-v1-0123456789abcdef0123456789abcdef".to_owned(),
        format!("sk-{key}"),
        format!("AIza{key}abc"),
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
    ];
    for secret in cases {
        let redactor = redactor(&[]);
        let found = redactor.redact(&format!("before {secret} | after")).into_owned();
        assert!(
            !found.contains(&key[4..28]) && !found.contains(&secret),
            "{secret}\n{found}"
        );
        assert!(found.starts_with("before ⟦secret:1⟧"), "{secret}\n{found}");
        assert!(found.ends_with("after"), "{secret}\n{found}");
    }
}

#[test]
fn a_token_of_this_program_needs_no_digit_and_the_names_of_its_modules_stay_visible() {
    let token = "drydock_qRkZpXvTnWbYmLcdHfgJsaQemPx-_rTywAbCdEfGhIj";
    assert_eq!(token.len(), 51);
    assert_eq!(
        redactor(&[]).redact(&format!("use {token} now")),
        "use ⟦secret:1⟧ now"
    );
    let module = "drydock__interfaces__tool__adapter__tests__a_result_that_is_not_kept_whole";
    assert_eq!(redactor(&[]).redact(module), module);
}

/// T87
#[test]
fn assignments_lose_their_value_and_keep_their_name() {
    let key = "q7Rk2ZpX9vTn4WbY6mLc";
    for (text, expected) in [
        (format!("password: {key}"), "password: ⟦secret:1⟧"),
        (format!("DB_PASSWORD={key}"), "DB_PASSWORD=⟦secret:1⟧"),
        (format!("\"api_key\": \"{key}\","), "\"api_key\": \"⟦secret:1⟧\","),
        (format!("  adminToken:: '{key}',"), "  adminToken:: '⟦secret:1⟧',"),
        (
            format!("- name: DB_PASSWORD\n  value: {key}"),
            "- name: DB_PASSWORD\n  value: ⟦secret:1⟧",
        ),
        (
            format!("{{ name: 'API_KEY', value: '{key}' }}"),
            "{ name: 'API_KEY', value: '⟦secret:1⟧' }",
        ),
        (
            format!("client-key-data: {key}{key}=="),
            "client-key-data: ⟦secret:1⟧",
        ),
        (
            format!("Authorization: Bearer {key}"),
            "Authorization: Bearer ⟦secret:1⟧",
        ),
        (
            format!("-H 'authorization: Basic {key}='"),
            "-H 'authorization: Basic ⟦secret:1⟧'",
        ),
        (
            format!("postgres://app:{key}@db:5432/x"),
            "postgres://app:⟦secret:1⟧@db:5432/x",
        ),
        (
            format!("aws_secret_access_key = {key}{key}"),
            "aws_secret_access_key = ⟦secret:1⟧",
        ),
        (
            "token: 0123456789abcdef0123456789abcdef".to_owned(),
            "token: ⟦secret:1⟧",
        ),
        (
            format!("https://hooks.slack.com/services/T01/B02/{key}"),
            "https://hooks.slack.com/⟦secret:1⟧",
        ),
    ] {
        let expected = expected.replace("hooks.slack.com/⟦", "hooks.slack.com/services/⟦");
        assert_eq!(redactor(&[]).redact(&text), expected);
    }
}

/// T87: typical content of a configuration repository.
#[test]
fn kubernetes_configuration_stays_as_it_is() {
    let text = r#"
image: registry.example.com/team/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
image: quay.io/prometheus/alertmanager:v0.27.0-distroless-20240612T081501Z-1a2b3c4d
checksum/secret: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
checksum/config: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
secretName: grafana-admin-credentials-v2-with-a-very-long-name-1234567890
secret: projects/my-project/secrets/Grafana-Admin-v2
existingSecret: kube-prometheus-stack-grafana-Admin-2024
secretKeyRef: { name: postgres-credentials, key: POSTGRES_PASSWORD }
password: $(POSTGRES_PASSWORD)
password: ${POSTGRES_PASSWORD_2024_PROD}
token: '{{ .Values.token }}'
apiKey: std.extVar('grafanaApiKey1')
tokenPath: /var/run/secrets/kubernetes.io/serviceaccount/token
- name: GITHUB_TOKEN
  valueFrom: { secretKeyRef: { name: github, key: token } }
- name: KEY
  value: environments/Prod-EU/values
uid: 550e8400-e29b-41d4-a716-446655440000
resourceVersion: "1234567890"
time: 2024-06-12T08:15:01Z
"sum": "VkhHX0dmbDFPZ3VkSVZhdXRoMTIzNDU2Nzg5MDEyMzQ=",
"version": "6a40b5b0dd6e3ab4ff7bdc4e4e1cd2e2d9a5b1ff",
name: task-runner-with-a-long-name-sk-but-not-a-key-really
sk-some-very-long-deployment-name-in-production
certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUM1ekND
args: [--web.external-url=https://prometheus.example.com:9090/path, user@example.com]
Authorization: Bearer $TOKEN
See -----BEGIN PRIVATE KEY----- in the documentation.
expr: sum(rate(apiserver_request_total{job="apiserver",code=~"5.."}[5m])) by (cluster)
hostPort: 12345678:8080
"#;
    let redacted = redactor(&[]).redact(text).into_owned();
    assert_eq!(redacted, text);
}

/// T93: text that is expensive to scan. Quadratic work would take hours here.
#[test]
fn hostile_text_costs_no_more_than_other_text() {
    let redactor = redactor(&["first-value"]);
    for part in [
        "-----BEGIN PRIVATE KEY-----.",
        "password: Aa1-Aa1-Aa1-Aa1- ",
        "eyJaaaaaaaaaaa.",
        "://:",
        "1234567890:",
    ] {
        let text = part.repeat(200_000 / part.len());
        assert!(redactor.redact(&text).len() <= text.len() * 2, "{part}");
    }
}

#[test]
fn a_document_may_mention_a_private_key() {
    let text = "It begins with `-----BEGIN PRIVATE KEY-----` and ends.";
    assert_eq!(redactor(&[]).redact(text), text);
}

#[test]
fn placeholder_numbers_are_stable_and_distinct_for_each_value() {
    let redactor = redactor(&["first-value", "second-value"]);
    assert_eq!(
        redactor.redact("second-value first-value second-value"),
        "⟦secret:1⟧ ⟦secret:2⟧ ⟦secret:1⟧"
    );
    assert_eq!(redactor.redact("first-value"), "⟦secret:2⟧");
}

#[test]
fn redacting_twice_changes_nothing_more() {
    let redactor = redactor(&["first-value"]);
    let once = redactor
        .redact("password: first-value token=q7Rk2ZpX9vTn4WbY6mLc")
        .into_owned();
    assert_eq!(once, "password: ⟦secret:1⟧ token=⟦secret:2⟧");
    assert!(matches!(redactor.redact(&once), Cow::Borrowed(_)));
}

#[test]
fn a_placeholder_is_recognised_and_its_look_alikes_are_not() {
    assert!(contains_placeholder("a: ⟦secret:12⟧"));
    assert!(contains_placeholder("⟦secret:x⟧ ⟦secret:1⟧"));
    for text in [
        "",
        "secret:1",
        "⟦secret:⟧",
        "⟦secret:x⟧",
        "⟦secret:1",
        "[secret:1]",
    ] {
        assert!(!contains_placeholder(text), "{text}");
    }
}

/// T88
#[test]
fn a_hundred_threads_agree_on_the_numbers() {
    let redactor = redactor(&["first-value", "second-value"]);
    let seen: Vec<String> = std::thread::scope(|scope| {
        let redact = |_| scope.spawn(|| redactor.redact("first-value second-value").into_owned());
        let threads: Vec<_> = (0..100).map(redact).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(seen.iter().all(|text| *text == seen[0]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    /// T87
    #[test]
    fn no_live_value_survives_wherever_it_stands(
        value in "[!-~]{8,60}",
        other in "[!-~]{8,60}",
        before in "\\PC{0,40}",
        between in "\\PC{0,3}",
        after in "(?s).{0,40}",
    ) {
        let redactor = redactor(&[&value, &other]);
        let text = format!("{before}{value}{between}{other}{value}{after}");
        let redacted = redactor.redact(&text);
        prop_assert!(!redacted.contains(&value), "{redacted}");
        prop_assert!(!redacted.contains(&other), "{redacted}");
    }

    #[test]
    fn no_encoding_of_a_live_value_survives(value in "[!-~]{8,60}", before in "(?s).{0,5}", after in "(?s).{0,5}") {
        let redactor = redactor(&[&value]);
        let whole = format!("{before}{value}{after}");
        for encoded in [STANDARD.encode(&whole), URL_SAFE.encode(&whole)] {
            prop_assert!(redactor.redact(&encoded).contains("⟦secret:"), "{encoded}");
        }
        for depth in 1..=2 {
            let mut json = whole.clone();
            for _ in 0..depth {
                json = serde_json::Value::from(json).to_string();
            }
            prop_assert!(redactor.redact(&json).contains("⟦secret:"), "{json}");
        }
        for bytes_of in [u16::to_le_bytes, u16::to_be_bytes] {
            let wide: Vec<u8> = whole.encode_utf16().flat_map(bytes_of).collect();
            let encoded = STANDARD.encode(wide);
            prop_assert!(redactor.redact(&encoded).contains("⟦secret:"), "{encoded}");
        }
        let numbered: [fn(char) -> String; 4] = [
            |c| format!("&#{};", u32::from(c)),
            |c| format!("&#x{:x};", u32::from(c)),
            |c| format!("\\u{:04x}", u32::from(c)),
            |c| format!("\\u{:04X}", u32::from(c)),
        ];
        for escaped in numbered {
            let encoded: String = value.chars().map(escaped).collect();
            prop_assert!(redactor.redact(&encoded).contains("⟦secret:"), "{encoded}");
        }
    }

    #[test]
    fn text_without_secrets_is_unharmed(text in "(?s).{0,200}") {
        let redactor = redactor(&["a-live-value-that-does-not-occur"]);
        let redacted = redactor.redact(&text);
        if !redacted.contains("⟦secret:") {
            prop_assert_eq!(&*redacted, &*text);
        }
    }
}

/// Four lines in the format of `openssl`.
const KEY_LINES: [&str; 4] = [
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj",
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu",
    "NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ",
    "qgtzJ6GR3eqoYQ==",
];

fn key() -> String {
    let label = "PRIVATE KEY";
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        KEY_LINES.join("\n")
    )
}

fn learning(text: &str) -> Redactor {
    let redactor = redactor(&[]);
    redactor.learn_file(None, text.as_bytes());
    redactor
}

/// T87: a page, a search result or a hunk contains a part of a key, and a program may encode it in any way.
#[test]
fn any_part_of_a_key_that_was_learnt_is_hidden_in_every_encoding() {
    let key = key();
    for file in [
        key.clone(),
        format!("name: x\n{key}level: 1\n"),
        format!("tls:\n  key: |\n    {}\n", key.trim().replace('\n', "\n    ")),
        format!("{{ key: \"{}\" }}\n", key.replace('\n', "\\n")),
    ] {
        let redactor = learning(&file);
        for line in KEY_LINES {
            for shown in [
                line.to_owned(),
                format!("+{line}"),
                format!("    {line}"),
                format!("{line} x"),
            ] {
                let hidden = redactor.redact(&shown).into_owned();
                assert!(
                    hidden.contains("⟦secret:") && !hidden.contains(&line[4..12]),
                    "{file}{shown}: {hidden}"
                );
            }
        }
        for (shown, part) in [
            (STANDARD.encode(&key), STANDARD.encode(&key)[80..110].to_owned()),
            (
                STANDARD.encode(format!("x{key}")),
                STANDARD.encode(format!("x{key}"))[80..110].to_owned(),
            ),
            (KEY_LINES[1][..30].to_owned(), KEY_LINES[1][2..28].to_owned()),
            (KEY_LINES[1][30..].to_owned(), KEY_LINES[1][34..60].to_owned()),
            (key.replace('\n', "\\n"), KEY_LINES[2][5..50].to_owned()),
        ] {
            let hidden = redactor.redact(&shown).into_owned();
            assert!(
                hidden.contains("⟦secret:") && !hidden.contains(&part),
                "{file}{shown}: {hidden}"
            );
        }
    }
}

#[test]
fn what_is_public_is_no_secret_and_leaves_no_hole() {
    let certificate = key().replace("PRIVATE KEY", "CERTIFICATE");
    let public = key().replace("PRIVATE KEY", "PUBLIC KEY");
    let text = format!("{certificate}{public}");
    assert_eq!(learning(&text).redact(&text), text);
    let encoded = STANDARD.encode(&certificate);
    let manifest = format!("kind: Secret\ndata:\n  tls.crt: {encoded}\n");
    assert_eq!(learning(&manifest).redact(&manifest), manifest);
    // A learnt key does not affect the header of a certificate.
    let both = learning(&key());
    assert_eq!(
        both.redact("-----BEGIN CERTIFICATE-----"),
        "-----BEGIN CERTIFICATE-----"
    );
}

#[test]
fn values_of_secrets_and_names_are_learnt_and_found_anywhere() {
    for (file, secret) in [
        (
            "- name: DB_PASSWORD\n  value: q7Rk2ZpX9vTn4WbY\n",
            "q7Rk2ZpX9vTn4WbY",
        ),
        ("DB_TOKEN=q7Rk2ZpX9vTn4WbY\nLEVEL=info\n", "q7Rk2ZpX9vTn4WbY"),
        ("password: 'blue moon 42'\n", "blue moon 42"),
        ("password: blue moon 42\n", "blue moon 42"),
        ("DB_PASSWORD=Xy7(kL9)mN2?pQ4z\n", "Xy7(kL9)mN2?pQ4z"),
        ("password: aB3:cD4:xyz123Q9\n", "aB3:cD4:xyz123Q9"),
        ("{ adminPassword:: \"a\\\"b-c-d-e-1\" }\n", "a\"b-c-d-e-1"),
        (
            "kind: Secret\nstringData: {opens: brass-kettle-41}\n",
            "brass-kettle-41",
        ),
        (
            "kind: Secret\ndata: {opens: YnJhc3Mta2V0dGxlLTQx}\n",
            "brass-kettle-41",
        ),
        ("url: postgres://app:kept-to-us-1@db/x\n", "kept-to-us-1"),
    ] {
        let redactor = learning(file);
        for shown in [secret.to_owned(), STANDARD.encode(secret), format!("x{secret}y")] {
            let hidden = redactor.redact(&shown).into_owned();
            assert!(
                hidden.contains("⟦secret:1⟧") && !hidden.contains(secret),
                "{file}{shown}: {hidden}"
            );
        }
    }
}

/// T87: a secret may have any length.
#[test]
fn a_long_value_is_known_by_any_larger_part_of_it() {
    let mut state = 7_u64;
    let long: String = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[(state >> 58) as usize],
        )
    })
    .take(20_000)
    .collect();
    let redactor = learning(&format!("kind: Secret\nstringData:\n  store: {long}\n"));
    assert_eq!(redactor.redact(&long), "⟦secret:1⟧");
    assert_eq!(redactor.redact(&long[..2_000]), "⟦secret:1⟧");
    assert_eq!(
        redactor.redact(&format!("+{}…", &long[9_000..9_500])),
        "+⟦secret:1⟧…"
    );
    assert_eq!(redactor.redact(&STANDARD.encode(&long)[300..900]), "⟦secret:1⟧");
}

#[test]
fn secrets_learned_by_one_redactor_are_unknown_to_others() {
    let ours = redactor(&[LIVE]);
    let (alice, bob) = (ours.fresh(), ours.fresh());
    alice.learn_file(None, b"password: 'blue moon 42'\n");
    assert!(alice.has_learned_secrets() && !bob.has_learned_secrets() && !ours.has_learned_secrets());
    assert_eq!(alice.redact("blue moon 42"), "⟦secret:1⟧");
    assert_eq!(bob.redact("blue moon 42"), "blue moon 42");
    assert_eq!(bob.redact(LIVE), "⟦secret:2⟧");
    assert_eq!(alice.redact(LIVE), "⟦secret:2⟧");
}

/// T87: the part of a bot token after the number
#[test]
fn the_key_of_a_telegram_bot_is_a_secret_by_itself() {
    let redactor = redactor(&["123456789:AAq7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe"]);
    assert_eq!(
        redactor.redact("x AAq7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe"),
        "x ⟦secret:1⟧"
    );
    assert_eq!(
        redactor.redact("123456789:AAq7Rk2ZpX9vTn4WbY6mLc8dHf3gJs5aQe"),
        "⟦secret:1⟧"
    );
}

#[test]
fn lines_holding_part_of_a_secret_are_listed_by_number() {
    let key = key();
    let text = format!("name: x\n{key}level: 1\n");
    let lines: Vec<usize> = learning(&text).lines(&text).into_iter().collect();
    assert_eq!(lines, [2, 3, 4, 5, 6, 7]);
    assert!(learning(&text).lines("name: x\nlevel: 1\n").is_empty());
}
