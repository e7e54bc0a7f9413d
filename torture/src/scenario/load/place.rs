//! The place of a person, with their runs and what they saw there.

use super::CARD_LAG_MAX;
use super::service::ChatService;
use crate::long_run::LongRun;
use crate::testbed::Testbed;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The beginning of a card that is not final.
const OPEN: [&str; 2] = ["Working", "Queued ("];

/// A message of the bot, or a draft of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LoadMessage {
    pub(super) id: String,
    pub(super) text: String,
}

impl LoadMessage {
    /// True for the card of a run that goes on.
    pub(super) fn is_open(&self) -> bool {
        OPEN.iter().any(|open| self.text.starts_with(open))
    }

    pub(super) fn is_result_of(&self, run: &LongRun) -> bool {
        !self.is_open() && self.text.contains(&run.done())
    }

    /// Returns the step of a card.
    fn step(&self) -> Option<usize> {
        let (_, rest) = self.text.split_once("Working, step ")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }
}

/// A run whose result was not seen yet.
#[derive(Clone, Debug)]
struct CurrentRun {
    run: LongRun,
    /// The last change of its card.
    changed: Option<Instant>,
}

/// A place with the runs of its person.
#[derive(Clone, Debug)]
pub(super) struct LoadPlace {
    pub(super) number: u32,
    /// The thread, once there is one.
    pub(super) root: Option<String>,
    runs: Vec<LongRun>,
    begun: usize,
    current: Option<CurrentRun>,
    shown: BTreeMap<String, String>,
    /// The number of cards that are shown and not final.
    open_cards: usize,
    /// The times in milliseconds at which the results were seen, by run.
    pub(super) seen: BTreeMap<u32, i64>,
    /// The longest time for which the card of a run stayed unchanged.
    pub(super) longest_pause: Duration,
    /// The edits of cards that were behind their runs.
    pub(super) lags: Vec<String>,
}

impl LoadPlace {
    pub(super) fn new(number: u32, runs: Vec<LongRun>) -> Self {
        Self {
            number,
            root: None,
            runs,
            begun: 0,
            current: None,
            shown: BTreeMap::new(),
            open_cards: 0,
            seen: BTreeMap::new(),
            longest_pause: Duration::ZERO,
            lags: Vec::new(),
        }
    }

    /// Returns the number of steps of all runs.
    pub(super) fn steps(&self) -> usize {
        self.runs.iter().map(|run| run.steps).sum()
    }

    /// Returns the next run once the person has the result of the last one.
    pub(super) fn next_run(&mut self) -> Option<LongRun> {
        if self.current.is_some() {
            return None;
        }
        let run = self.runs.get(self.begun)?.clone();
        self.begun += 1;
        self.current = Some(CurrentRun {
            run: run.clone(),
            changed: None,
        });
        Some(run)
    }

    /// Returns the runs that were requested.
    pub(super) fn asked(&self) -> impl Iterator<Item = &LongRun> {
        self.runs.iter().take(self.begun)
    }

    pub(super) fn is_done(&self) -> bool {
        self.begun == self.runs.len() && self.current.is_none()
    }

    pub(super) fn open_cards(&self) -> usize {
        self.open_cards
    }

    /// Looks at the place, and notes what has changed.
    pub(super) fn look(&mut self, world: &Testbed, service: &ChatService) {
        let (now, shown) = (Instant::now(), service.shown(world, self));
        self.open_cards = shown.iter().filter(|message| message.is_open()).count();
        for message in shown {
            let before = self.shown.insert(message.id.clone(), message.text.clone());
            if before.as_ref() == Some(&message.text) {
                continue;
            }
            let current = self.current.as_ref();
            if current.is_some_and(|current| message.is_result_of(&current.run)) {
                self.note_result(now);
            } else if message.is_open() {
                // The first card may have waited for the limit of posts, and is edited at once. A stream without words is no
                // card yet.
                let is_edit = current.is_some_and(|current| current.changed.is_some());
                let heading = message.text.lines().next().unwrap_or_default();
                world.note(&format!("place {}: {heading}", self.number));
                self.note_card(now, message.step().filter(|_| is_edit), world);
            }
        }
    }

    fn note_result(&mut self, now: Instant) {
        let Some(current) = self.current.take() else {
            return;
        };
        if current.changed.is_none() {
            self.lags.push(format!("run {} had no card", current.run.id));
        }
        self.note_pause(current.changed, now);
        self.seen
            .insert(current.run.id, Timestamp::now().as_millisecond());
    }

    /// Notes a change of the card of the current run. An edit shows the newest step.
    fn note_card(&mut self, now: Instant, edited: Option<usize>, world: &Testbed) {
        let Some(current) = &mut self.current else { return };
        let changed = current.changed.replace(now);
        // The model was asked for the step after the shown one.
        let next = edited.and_then(|step| world.model.begun(&current.run, step));
        let lag = next.map_or(Duration::ZERO, |next| now.saturating_duration_since(next));
        if lag > CARD_LAG_MAX {
            let (run, seconds) = (current.run.id, lag.as_secs_f64());
            self.lags.push(format!(
                "an edit of the card of run {run} was {seconds:.1} s behind"
            ));
        }
        self.note_pause(changed, now);
    }

    fn note_pause(&mut self, changed: Option<Instant>, now: Instant) {
        let pause = changed.map_or(Duration::ZERO, |changed| now - changed);
        self.longest_pause = self.longest_pause.max(pause);
    }
}
