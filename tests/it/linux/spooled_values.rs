//! Large values that wait to be read, as memory mappings of this process.

use crate::charts::{settings, with};
use crate::support::evaluation::{evaluate, snippet_request};
use bytes::Bytes;
use drydock::rendering::jsonnet::Evaluator;
use std::path::Path;

/// Bytes from which a value goes to a file.
const LARGE_BYTES: usize = 512 << 10;

/// Counts the memory mappings of this process that belong to files of a directory.
fn mapped(directory: &Path) -> usize {
    let maps = String::from_utf8(std::fs::read("/proc/self/maps").expect("our mappings")).expect("text");
    let name = directory.to_str().expect("text");
    maps.lines().filter(|line| line.contains(name)).count()
}

/// Returns a value of this many bytes: a text with its quotes.
async fn value(evaluator: &Evaluator, bytes: usize) -> Bytes {
    let text = format!(
        "std.substr(std.repeat('0123456789abcdef', {}), 0, {})",
        bytes / 16 + 1,
        bytes - 2
    );
    let evaluated = evaluate(evaluator, snippet_request(&text)).await;
    evaluated.expect("a value").json
}

#[tokio::test]
async fn a_large_text_lies_in_a_file_without_a_name_and_a_small_one_does_not() {
    let place = tempfile::tempdir().expect("a directory");
    let scratch = place.path().join("texts");
    let evaluator = with(&settings(Path::new("/nonexistent/helm"), &scratch));
    let small = value(&evaluator, LARGE_BYTES - 1).await;
    assert_eq!((small.len(), mapped(place.path())), (LARGE_BYTES - 1, 0));
    let large = value(&evaluator, LARGE_BYTES).await;
    let text = format!(
        "\"{}\"",
        &"0123456789abcdef".repeat(LARGE_BYTES / 16)[..LARGE_BYTES - 2]
    );
    assert_eq!(large, text);
    assert_eq!(mapped(place.path()), 1);
    assert_eq!(std::fs::read_dir(&scratch).expect("the directory").count(), 0);
    let part = large.slice(10..20);
    drop(large);
    assert_eq!(
        (part.as_ref(), mapped(place.path())),
        (&text.as_bytes()[10..20], 1)
    );
    drop(part);
    assert_eq!(mapped(place.path()), 0);
}
