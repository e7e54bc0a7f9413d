//! Counts of what happened in all conversations, so that a test sees that each operation took place.

use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of what is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Conversations,
    Operations,
    Turns,
    /// Requests that were checked, each format once.
    Requests,
    Crashes,
    Stops,
    FailedCalls,
    Trims,
    Compactions,
    Steered,
    Repeated,
    Fallbacks,
    Retries,
    Questions,
    Answers,
    SentBack,
    Resumed,
    /// Texts of other people that were injected.
    Injected,
    /// Texts that were not, because the person had not agreed.
    Declined,
    /// Messages to other people.
    Sent,
}

impl Counted {
    const ALL: [Self; 20] = [
        Self::Conversations,
        Self::Operations,
        Self::Turns,
        Self::Requests,
        Self::Crashes,
        Self::Stops,
        Self::FailedCalls,
        Self::Trims,
        Self::Compactions,
        Self::Steered,
        Self::Repeated,
        Self::Fallbacks,
        Self::Retries,
        Self::Questions,
        Self::Answers,
        Self::SentBack,
        Self::Resumed,
        Self::Injected,
        Self::Declined,
        Self::Sent,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Conversations => "conversations",
            Self::Operations => "operations",
            Self::Turns => "turns",
            Self::Requests => "requests",
            Self::Crashes => "crashes",
            Self::Stops => "stops",
            Self::FailedCalls => "failed calls",
            Self::Trims => "trims",
            Self::Compactions => "compactions",
            Self::Steered => "steered",
            Self::Repeated => "repeated requests",
            Self::Fallbacks => "fallbacks",
            Self::Retries => "continued turns",
            Self::Questions => "questions",
            Self::Answers => "answers",
            Self::SentBack => "sent back",
            Self::Resumed => "turns after a crash",
            Self::Injected => "injected texts",
            Self::Declined => "declined texts",
            Self::Sent => "sent messages",
        }
    }
}

/// The numbers.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; Counted::ALL.len()]);

impl Counts {
    pub(super) fn add(&self, what: Counted) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the names of what never happened.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        let missing = Counted::ALL.into_iter().filter(|what| self.number(*what) == 0);
        missing.map(Counted::name).collect()
    }

    /// Returns all numbers in one line.
    pub(super) fn line(&self) -> String {
        let parts = Counted::ALL.map(|what| format!("{} {}", self.number(what), what.name()));
        parts.join(", ")
    }

    fn number(&self, what: Counted) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }
}
