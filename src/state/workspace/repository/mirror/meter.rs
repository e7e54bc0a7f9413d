//! Forwards the progress counters of a fetch.

use super::{FetchProgress, OnFetch};
use gix::progress::{Id, MessageLevel, Step, StepShared, UNKNOWN, Unit};
use gix::{Count, NestedProgress, Progress};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Objects between two reports.
const OBJECTS_PER_REPORT: usize = 1_000;
/// Bytes between two reports.
const BYTES_PER_REPORT: usize = 1 << 20;

/// A progress counter and its children.
pub(crate) struct Meter {
    name: String,
    watcher: OnFetch,
    step: StepShared,
    total: Option<Step>,
    bytes: bool,
}

impl Meter {
    pub(crate) fn new(watcher: OnFetch) -> Self {
        Self {
            name: String::new(),
            watcher,
            step: Arc::new(AtomicUsize::new(0)),
            total: None,
            bytes: false,
        }
    }

    fn report(&self, before: Step, after: Step) {
        let each = if self.bytes {
            BYTES_PER_REPORT
        } else {
            OBJECTS_PER_REPORT
        };
        if before / each != after / each || Some(after) == self.total {
            (self.watcher)(FetchProgress {
                what: self.name.clone(),
                done: after,
                total: self.total,
                bytes: self.bytes,
            });
        }
    }
}

impl Count for Meter {
    fn set(&self, step: Step) {
        let before = self.step.swap(step, Ordering::Relaxed);
        self.report(before, step);
    }

    fn step(&self) -> Step {
        self.step.load(Ordering::Relaxed)
    }

    fn inc_by(&self, step: Step) {
        let before = self.step.fetch_add(step, Ordering::Relaxed);
        self.report(before, before.saturating_add(step));
    }

    fn counter(&self) -> StepShared {
        self.step.clone()
    }
}

impl Progress for Meter {
    fn init(&mut self, max: Option<Step>, unit: Option<Unit>) {
        self.total = max;
        let unit = unit
            .map(|unit| format!("{}", unit.display(1, None, None)))
            .unwrap_or_default();
        self.bytes = unit.ends_with('B') || unit.contains("byte");
        self.step.store(0, Ordering::Relaxed);
    }

    fn max(&self) -> Option<Step> {
        self.total
    }

    fn set_max(&mut self, max: Option<Step>) -> Option<Step> {
        std::mem::replace(&mut self.total, max)
    }

    fn set_name(&mut self, name: String) {
        self.name = name;
    }

    fn name(&self) -> Option<String> {
        Some(self.name.clone())
    }

    fn id(&self) -> Id {
        UNKNOWN
    }

    /// Ignores messages, because texts of the remote must not be repeated.
    fn message(&self, _level: MessageLevel, _message: String) {}
}

impl NestedProgress for Meter {
    type SubProgress = Self;

    fn add_child(&mut self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::new(self.watcher.clone())
        }
    }

    fn add_child_with_id(&mut self, name: impl Into<String>, _id: Id) -> Self {
        self.add_child(name)
    }
}
