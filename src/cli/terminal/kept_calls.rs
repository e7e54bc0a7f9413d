//! The calls of a step of a recorded run, kept until the run ends: a later step can tell which texts are secret, and then the
//! files of the calls are written again. Large texts are in unnamed files.

use crate::base::spool::Spool;
use crate::engine::pipeline::{CallFile, TracedCalls};
use crate::state::recording::CallStream;
use bytes::Bytes;
use serde_json::Value;

/// The calls of a step, with their results.
#[derive(Debug)]
pub(in crate::cli) struct KeptCalls {
    /// The answers of the model with their calls, as objects.
    pub(in crate::cli) steps: Vec<Value>,
    /// The number of calls whose results are no files.
    pub(in crate::cli) without_file: usize,
    results: Vec<KeptCallResult>,
}

/// The result of a call.
#[derive(Debug)]
struct KeptCallResult {
    number: usize,
    stream: CallStream,
    text: Bytes,
}

impl KeptCalls {
    /// Keeps the calls of a step.
    pub(in crate::cli) fn new(traced: TracedCalls<'_>, spool: &Spool) -> Self {
        // One text for the whole step, so that at most one small text of each step stays in memory.
        let mut texts = Vec::with_capacity(traced.files.iter().map(|file| file.text.len()).sum());
        for file in &traced.files {
            texts.extend_from_slice(file.text.as_bytes());
        }
        let mut texts = spool.keep(texts);
        let results = traced.files.iter().map(|file| KeptCallResult {
            number: file.number,
            stream: file.stream,
            text: texts.split_to(file.text.len()),
        });
        Self {
            results: results.collect(),
            steps: traced.steps,
            without_file: traced.without_file,
        }
    }

    /// Returns the results of the calls.
    pub(in crate::cli) fn files(&self) -> impl Iterator<Item = CallFile<'_>> {
        self.results.iter().map(|result| CallFile {
            number: result.number,
            stream: result.stream,
            // It was cut where another text begins.
            text: std::str::from_utf8(&result.text).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::KeptCalls;
    use crate::base::spool::Spool;
    use crate::engine::pipeline::{CallFile, TracedCalls};
    use crate::state::recording::CallStream;

    #[test]
    fn the_results_of_calls_are_kept_one_by_one() {
        let place = tempfile::tempdir().unwrap();
        let spool = Spool::in_directory(place.path());
        let large = "🚢\n".repeat(200 << 10);
        let files = [(1, large.as_str()), (2, ""), (3, "é"), (7, "the end")].map(|(number, text)| CallFile {
            number,
            stream: match number {
                3 => CallStream::Stderr,
                _ => CallStream::Stdout,
            },
            text,
        });
        let traced = TracedCalls {
            steps: Vec::new(),
            files: files.to_vec(),
            without_file: 1,
        };
        let kept = KeptCalls::new(traced, &spool);
        assert!(kept.files().eq(files));
        assert_eq!((kept.steps.len(), kept.without_file), (0, 1));
    }
}
