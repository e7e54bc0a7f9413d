//! Outputs: the whole texts of shortened tool results of one conversation, from which `read_output` reads.

use crate::base::model::{OutputNumber, StoredOutput};
use crate::base::spool::Spool;
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Bytes of the outputs of one conversation. Beyond that the oldest ones are dropped.
pub const OUTPUTS_BYTES_MAX: usize = 64 << 20;

/// The outputs of one conversation. Those of others cannot be read through it.
#[async_trait]
pub trait Outputs: std::fmt::Debug + Send + Sync {
    /// Returns the text of an output; `None` if it never existed or is no longer kept.
    async fn text(&self, number: OutputNumber) -> anyhow::Result<Option<String>>;

    /// Returns true if an output may be one of an earlier session, whose outputs ended with it.
    fn is_of_an_earlier_session(&self, number: OutputNumber) -> bool {
        let _ = number;
        false
    }
}

/// Outputs that end with the process; large ones are kept in unnamed files.
#[derive(Debug, Default)]
pub struct MemoryOutputs {
    spool: Spool,
    texts: Mutex<BTreeMap<OutputNumber, Bytes>>,
    /// The number of the newest output of an earlier session.
    earlier: Option<OutputNumber>,
}

impl MemoryOutputs {
    /// Creates outputs that keep large texts in unnamed files in `directory`.
    pub fn in_directory(directory: impl Into<std::path::PathBuf>) -> Self {
        Self {
            spool: Spool::in_directory(directory),
            texts: Mutex::default(),
            earlier: None,
        }
    }

    /// Returns the outputs of a session that goes on after an output of an earlier session.
    #[must_use]
    pub fn after(self, newest: OutputNumber) -> Self {
        Self {
            earlier: Some(newest),
            ..self
        }
    }

    /// Keeps outputs. The oldest ones are dropped where all of them have too many bytes.
    pub fn keep(&self, outputs: &[StoredOutput]) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        for output in outputs {
            let text = output.text.clone().into_bytes();
            texts.insert(output.number, self.spool.keep(text));
        }
        while texts.values().map(Bytes::len).sum::<usize>() > OUTPUTS_BYTES_MAX {
            texts.pop_first();
        }
    }

    /// Returns all outputs, the oldest first.
    pub fn all(&self) -> Vec<StoredOutput> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let outputs = texts.iter().map(|(number, text)| StoredOutput {
            number: *number,
            text: String::from_utf8_lossy(text).into_owned(),
        });
        outputs.collect()
    }

    /// Drops all outputs.
    pub fn clear(&self) {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.clear();
    }
}

#[async_trait]
impl Outputs for MemoryOutputs {
    async fn text(&self, number: OutputNumber) -> anyhow::Result<Option<String>> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = texts
            .get(&number)
            .map(|text| String::from_utf8_lossy(text).into_owned());
        Ok(text)
    }

    fn is_of_an_earlier_session(&self, number: OutputNumber) -> bool {
        number.0 > 0 && self.earlier.is_some_and(|newest| number <= newest)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{MemoryOutputs, OUTPUTS_BYTES_MAX, Outputs};
    use crate::base::model::{OutputNumber, StoredOutput};

    #[tokio::test]
    async fn the_oldest_outputs_are_dropped_first() {
        let directory = tempfile::tempdir().unwrap();
        let outputs = MemoryOutputs::in_directory(directory.path());
        for number in 1..=10 {
            outputs.keep(&[StoredOutput {
                number: OutputNumber(number),
                text: number.to_string().repeat(OUTPUTS_BYTES_MAX / 8),
            }]);
        }
        let mut kept = Vec::new();
        for number in 1..=11 {
            let text = outputs.text(OutputNumber(number)).await.unwrap();
            kept.extend(text.map(|text| (number, text.get(..1).unwrap().to_owned())));
        }
        let expected = [4, 5, 6, 7, 8, 9].map(|number| (number, number.to_string()));
        assert_eq!(kept.split_last().unwrap().1, expected);
        let all: Vec<OutputNumber> = outputs.all().iter().map(|output| output.number).collect();
        assert_eq!(all, [4, 5, 6, 7, 8, 9, 10].map(OutputNumber));
        outputs.clear();
        assert_eq!(outputs.text(OutputNumber(10)).await.unwrap(), None);
    }
}
