//! Tests of deadlines and limits with a paused clock.

#![allow(clippy::expect_used)]

use super::{Chunks, Deadlines, ReadError, read_whole};
use async_trait::async_trait;
use bytes::Bytes;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A body of pieces with a pause before each, followed by silence.
struct Paced(VecDeque<(Duration, Bytes)>);

#[async_trait]
impl Chunks for Paced {
    async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        let Some((pause, bytes)) = self.0.pop_front() else {
            return std::future::pending().await;
        };
        tokio::time::sleep(pause).await;
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

async fn read(pauses: &[u64], bytes: &'static [u8]) -> (Result<usize, ReadError>, u64) {
    let begun = Instant::now();
    let deadlines = Deadlines {
        end: begun + Duration::from_secs(120),
        idle_time_max: Duration::from_secs(30),
    };
    let piece = |seconds: &u64| (Duration::from_secs(*seconds), Bytes::from_static(bytes));
    let mut paced = Paced(pauses.iter().map(piece).collect());
    let read = read_whole(&mut paced, &deadlines, 1_000).await;
    (read.map(|body| body.len()), begun.elapsed().as_secs())
}

/// R11
#[tokio::test(start_paused = true)]
async fn silence_ends_an_attempt_after_the_idle_time() {
    assert_eq!(read(&[29, 29], b"x").await, (Err(ReadError::Idle), 88));
    assert_eq!(read(&[], b"x").await, (Err(ReadError::Idle), 30));
}

/// R11
#[tokio::test(start_paused = true)]
async fn a_trickle_ends_an_attempt_after_its_whole_time() {
    assert_eq!(read(&[29; 9], b"x").await, (Err(ReadError::Late), 120));
}

#[tokio::test(start_paused = true)]
async fn a_body_is_read_up_to_its_bound() {
    assert_eq!(read(&[1, 1, 1], &[b'x'; 500]).await, (Err(ReadError::TooLong), 3));
    assert_eq!(read(&[1], b"").await, (Ok(0), 1));
}
