//! No secret survives, and configuration stays readable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::string_slice)]

use super::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn redactor(values: &[&str]) -> Redactor {
    Redactor::new(values.iter().map(|value| Secret::new((*value).to_owned())))
}

const LIVE: &str = "s3cr3t/Value+\"1\"&<x>";

#[test]
fn a_live_value_has_one_number_in_every_encoding() {
    let redactor = redactor(&[LIVE]);
    let json = serde_json::Value::from(LIVE).to_string();
    let hex: String = LIVE.bytes().map(|byte| format!("{byte:02x}")).collect();
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

/// T87: what a configuration repository is full of.
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

/// T93: text made to be slow to look at. Quadratic work would take hours here.
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
fn numbers_are_stable_and_tell_values_apart() {
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
