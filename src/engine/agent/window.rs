//! The part of the open turn that fits into one request next to the earlier turns, which are trimmed already: as much
//! as the bound allows, the newest parts first.
//!
//! The parts to leave out are chosen step by step, in the order of the steps. Each time, enough is left out that the
//! next requests fit as well. So the same conversation always gives the same request, and each request begins with
//! the bytes of the previous one until the bound is reached again.

use crate::base::model::{History, Step, ToolCall, ToolResult, Turn, result_bytes, result_bytes_with};
use std::borrow::Cow;

/// Bytes that are kept of a result of an earlier step: at first, and at the end.
const EARLIER_BYTES: [usize; 2] = [2_048, 512];
/// Bytes that are kept of a result of the newest step.
const NEWEST_BYTES: [usize; 6] = [49_152, 32_768, 16_384, 8_192, 4_096, 2_048];
/// Bytes that are kept of a result of the newest step if the request is still too long.
const NEWEST_BYTES_AT_LAST: [usize; 3] = [1_024, 512, 256];
/// Bytes reserved for the note about omitted steps.
const NOTE_BYTES: usize = 320;
/// Bytes reserved for the mark that replaces the omitted part of a result.
const MARK_BYTES: usize = 256;

/// The bounds of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowBounds {
    /// Bytes of the whole request.
    pub(super) bytes_max: usize,
    /// Bytes of the parts that are the same in every request: instructions and tools.
    pub(super) fixed: usize,
}

/// The request cannot be made small enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTooLong {
    /// Bytes of the request after everything optional was left out.
    pub bytes: usize,
}

/// Returns the turns of a request. `repeats` returns true for a tool whose calls give the same answer when repeated.
pub(super) fn fit<'h>(
    history: &'h History,
    bounds: WindowBounds,
    repeats: &dyn Fn(&str) -> bool,
) -> Result<Cow<'h, [Turn]>, RequestTooLong> {
    let Some((open, earlier)) = history.turns().split_last() else {
        return Ok(Cow::Borrowed(&[]));
    };
    let mut window = Window::new(open, history.bytes() - open.bytes(), bounds, repeats);
    window.check()?;
    for _ in open.steps() {
        window.take_step()?;
    }
    if !window.is_cut {
        return Ok(Cow::Borrowed(history.turns()));
    }
    let mut turns = earlier.to_vec();
    turns.push(window.open_turn());
    Ok(Cow::Owned(turns))
}

/// The part of a result that is kept.
#[derive(Clone, Copy)]
struct KeptResult {
    /// Bytes that may be kept.
    bytes_max: usize,
    /// Its bytes in a request, once they were counted.
    sent_bytes: Option<usize>,
}

impl KeptResult {
    const WHOLE: Self = Self {
        bytes_max: usize::MAX,
        sent_bytes: None,
    };
}

struct Window<'h> {
    open: &'h Turn,
    bounds: WindowBounds,
    repeats: &'h dyn Fn(&str) -> bool,
    /// The number of steps of the open turn that were processed.
    seen: usize,
    /// The number of processed steps that are left out.
    left_out: usize,
    /// The kept part of each result of the processed steps.
    kept: Vec<Vec<KeptResult>>,
    /// Bytes of the request.
    bytes: usize,
    /// True if the open turn was shortened.
    is_cut: bool,
}

impl<'h> Window<'h> {
    /// Creates the window at the start of its turn, next to earlier turns of so many bytes.
    fn new(
        open: &'h Turn,
        earlier_bytes: usize,
        bounds: WindowBounds,
        repeats: &'h dyn Fn(&str) -> bool,
    ) -> Self {
        Self {
            open,
            bounds,
            repeats,
            seen: 0,
            left_out: 0,
            kept: Vec::new(),
            bytes: bounds.fixed + earlier_bytes + open.user_bytes(),
            is_cut: false,
        }
    }

    /// Returns the size of a request after parts were left out. It leaves room for the next requests.
    fn target_bytes(&self) -> usize {
        let variable = self.bounds.bytes_max.saturating_sub(self.bounds.fixed);
        self.bounds.fixed + variable / 4 * 3
    }

    fn is_over(&self) -> bool {
        self.bytes > self.bounds.bytes_max
    }

    fn step(&self, number: usize) -> Option<&'h Step> {
        self.open.steps().get(number)
    }

    /// Processes the next step of the open turn, and leaves out parts that no longer fit.
    fn take_step(&mut self) -> Result<(), RequestTooLong> {
        let Some(step) = self.step(self.seen) else {
            return Ok(());
        };
        self.seen += 1;
        self.kept.push(vec![KeptResult::WHOLE; step.results().len()]);
        self.bytes += step.bytes();
        if !self.is_over() {
            return Ok(());
        }
        for bytes in EARLIER_BYTES {
            self.shorten(self.left_out..self.seen - 1, bytes, self.target_bytes());
        }
        let newest = self.seen - 1..self.seen;
        let half = (self.bounds.bytes_max - self.bounds.fixed.min(self.bounds.bytes_max)) / 2;
        for bytes in NEWEST_BYTES {
            // Before earlier steps are left out, only results that would fill a request by themselves are shortened.
            if self.bytes_of(newest.start) > half {
                self.shorten(newest.clone(), bytes, self.bounds.bytes_max);
            }
        }
        if self.is_over() {
            self.leave_out_steps();
        }
        for bytes in NEWEST_BYTES.into_iter().chain(NEWEST_BYTES_AT_LAST) {
            self.shorten(newest.clone(), bytes, self.bounds.bytes_max);
        }
        self.check()
    }

    /// Fails if the request is still too long after everything optional was left out.
    fn check(&self) -> Result<(), RequestTooLong> {
        match self.is_over() {
            true => Err(RequestTooLong { bytes: self.bytes }),
            false => Ok(()),
        }
    }

    /// Shortens the results of these steps, the oldest first, until the request has at most `enough` bytes. All
    /// results of the newest step are shortened equally.
    fn shorten(&mut self, steps: std::ops::Range<usize>, bytes: usize, enough: usize) {
        let newest = self.seen - 1;
        for number in steps {
            let Some(step) = self.step(number) else { continue };
            for index in 0..step.results().len() {
                if self.bytes <= enough && number != newest {
                    return;
                }
                if self.bytes <= enough && index == 0 {
                    return;
                }
                self.shorten_one(number, index, bytes);
            }
        }
    }

    fn shorten_one(&mut self, number: usize, index: usize, bytes: usize) {
        let result = self.step(number).and_then(|step| step.results().get(index));
        let (Some(result), Some(kept)) = (result, self.kept(number, index)) else {
            return;
        };
        if bytes >= kept.bytes_max || result.content.len() <= bytes + MARK_BYTES {
            return;
        }
        let before = self.sent_bytes(number, index);
        let after = match self.content(number, index, result, bytes) {
            Some(content) => result_bytes_with(result, &content),
            None => result_bytes(result),
        };
        self.bytes = (self.bytes + after).saturating_sub(before);
        self.keep(
            number,
            index,
            KeptResult {
                bytes_max: bytes,
                sent_bytes: Some(after),
            },
        );
        self.is_cut = true;
    }

    fn leave_out_steps(&mut self) {
        if self.left_out == 0 && self.seen > 1 {
            self.bytes += NOTE_BYTES;
        }
        while self.bytes > self.target_bytes() && self.left_out + 1 < self.seen {
            // The person's answers and messages are kept.
            let kept = self.step(self.left_out).map_or(0, Step::words_bytes);
            self.bytes = (self.bytes + kept).saturating_sub(self.bytes_of(self.left_out));
            self.left_out += 1;
            self.is_cut = true;
        }
    }

    fn kept(&self, number: usize, index: usize) -> Option<KeptResult> {
        self.kept.get(number)?.get(index).copied()
    }

    fn keep(&mut self, number: usize, index: usize, kept: KeptResult) {
        let results = self.kept.get_mut(number);
        if let Some(result) = results.and_then(|results| results.get_mut(index)) {
            *result = kept;
        }
    }

    /// Returns the current size of a step in bytes.
    fn bytes_of(&mut self, number: usize) -> usize {
        let Some(step) = self.step(number) else { return 0 };
        let results = (0..step.results().len()).map(|index| self.sent_bytes(number, index));
        step.answer_bytes() + results.sum::<usize>()
    }

    /// Returns the current size of a result in bytes. A result is counted once, and then again when it is shortened.
    fn sent_bytes(&mut self, number: usize, index: usize) -> usize {
        let result = self.step(number).and_then(|step| step.results().get(index));
        let (Some(result), Some(kept)) = (result, self.kept(number, index)) else {
            return 0;
        };
        let bytes = kept.sent_bytes.unwrap_or_else(|| result_bytes(result));
        let sent_bytes = Some(bytes);
        self.keep(number, index, KeptResult { sent_bytes, ..kept });
        bytes
    }

    /// Returns a result shortened to so many bytes; `None` if it is whole.
    fn content(&self, number: usize, index: usize, result: &ToolResult, bytes: usize) -> Option<String> {
        if bytes == KeptResult::WHOLE.bytes_max {
            return None;
        }
        let call = self.step(number)?.assistant().calls().nth(index)?;
        Some(shortened(
            &result.content,
            bytes,
            &repeat_hint(call, self.repeats),
        ))
    }

    fn open_turn(&self) -> Turn {
        let note = match self.left_out {
            0 => String::new(),
            steps => format!(
                "\n\n[The first {steps} steps of your work on this message are left out here, because the request \
                 would be too long. Their edits are in the files; `git_diff` shows them.]"
            ),
        };
        self.open
            .shortened(self.left_out, &note, |number, index, result| {
                let kept = self.kept(number, index)?;
                self.content(number, index, result, kept.bytes_max)
            })
    }
}

/// Returns a hint for the model on how to read the omitted part of a result.
fn repeat_hint(call: &ToolCall, repeats: &dyn Fn(&str) -> bool) -> String {
    match repeats(&call.name) {
        true => format!("`{}` with the same arguments shows them again", call.name),
        false => "the call was made already".to_owned(),
    }
}

/// Returns the head and tail of a text, with a line between them about the missing bytes.
fn shortened(text: &str, bytes: usize, again: &str) -> String {
    let head = text.floor_char_boundary(bytes / 4 * 3);
    let tail = text
        .ceil_char_boundary(text.len().saturating_sub(bytes / 4))
        .max(head);
    let (head, rest) = text.split_at(head);
    let (middle, tail) = rest.split_at(tail - head.len());
    format!(
        "{head}\n[... {} bytes of this result left out here, because the request would be too long; {again} ...]\n{tail}",
        middle.len()
    )
}

#[cfg(test)]
mod tests;
