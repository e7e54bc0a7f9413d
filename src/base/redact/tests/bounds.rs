//! The limits of learning, caching and searching, for hostile files.

use super::*;
use crate::base::redact::file_secrets::FILES_BYTES_MAX;
use std::time::{Duration, Instant};

/// Returns an opaque text that is different for each number.
fn secret(number: usize, bytes: usize) -> String {
    let mut text = format!("Zx9{number:04}");
    let mut state = number as u64 + 1;
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        text.push(char::from(
            b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz0123456789"[(state >> 33) as usize % 58],
        ));
    }
    text
}

fn bytes_remembered(redactor: &Redactor) -> usize {
    let files = redactor.shared.files();
    let known = files.recent.values().chain(files.before.values());
    known.map(|found| found.bytes()).sum()
}

/// T93: each hit is at another position of the value, and each could be the whole value.
#[test]
fn repetitions_cost_no_more_than_other_text() {
    let repeated = "Abcdefg1".repeat(64 << 10);
    let redactor = redactor(&[]);
    redactor.learn_file(None, format!("token: {repeated}\n").as_bytes());
    let started = Instant::now();
    let redacted = redactor.redact(&repeated);
    assert!(
        redacted.starts_with("⟦secret:") && redacted.len() < 100,
        "{}",
        redacted.len()
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn the_memo_of_scanned_files_is_bounded_in_bytes() {
    let redactor = redactor(&[]);
    for number in 0..20 {
        redactor.secrets_in_file(None, format!("token: {}\n", secret(number, 1 << 20)).as_bytes());
    }
    let bytes = bytes_remembered(&redactor);
    assert!(bytes > 0 && bytes <= FILES_BYTES_MAX + (2 << 20), "{bytes}");
}

/// A redactor with more secrets than it can search for hides everything and takes no more memory.
#[test]
fn a_redactor_with_too_many_secrets_hides_everything() {
    let redactor = redactor(&[]);
    for number in 0..8 {
        redactor.learn_file(None, format!("token: {}\n", secret(number, 512 << 10)).as_bytes());
    }
    assert_eq!(redactor.redact("replicas: 2"), "⟦secret:1⟧");
    assert!(redactor.has_learned_secrets());
    let learnt = redactor.learned.lock().unwrap();
    assert!(learnt.texts.is_empty() && learnt.known.is_empty());
}

/// A large value does not reduce the encodings in which a small one is searched.
#[test]
fn a_large_secret_takes_no_encoding_from_others() {
    let (small, large) = (secret(1, 24), secret(2, 1 << 20));
    let redactor = redactor(&[]);
    redactor.learn_file(None, format!("token: {small}\n").as_bytes());
    redactor.learn_file(None, format!("token: {large}\n").as_bytes());
    let hex = hex::encode(&small);
    for hidden in [small.as_str(), &hex, &large, &large[5_000..6_000]] {
        let redacted = redactor.redact(hidden);
        assert!(
            redacted.starts_with("⟦secret:") && redacted.len() < 100,
            "{redacted}"
        );
    }
    assert_eq!(redactor.redact("replicas: 2"), "replicas: 2");
}

/// The result for a file that changes during the scan is not stored under its earlier hash.
#[test]
fn scan_results_are_memoized_by_the_hash_of_the_content_read() {
    let redactor = redactor(&[]);
    let (plain, held) = ("level: 1\n", format!("token: {}\n", secret(1, 24)));
    let read =
        |text: &str, blob: &str| Some((bytes::Bytes::copy_from_slice(text.as_bytes()), blob.to_owned()));
    let meanwhile = redactor.secrets_in_blob("a", || read(plain, "b")).unwrap();
    assert!(meanwhile.secrets.is_empty());
    let found = redactor.secrets_in_blob("a", || read(&held, "a")).unwrap();
    assert_eq!(found.secrets.len(), 1);
    let known = redactor.secrets_in_blob("b", || None).unwrap();
    assert!(known.secrets.is_empty());
}
