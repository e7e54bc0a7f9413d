//! The end of a turn at each of its waits, by its time and by a stop.
//!
//! A turn waits for its model before the request is sent, and before and within the answer; for the models after it; for a
//! summary of the conversation; for tools; for the check of its files; and for its person. The waits within an answer, and
//! those of connections, are tests of the providers. The waits for the journal have no end of their own: what cannot be
//! recorded must not end as if it were.

use super::fixture::{MemoryJournal, TurnFixture, TurnRun};
use super::strategies::long_history;
use super::write;
use crate::base::config::ModelFacts;
use crate::base::model::{AskedQuestion, ContextStrategyName, Effect, History, QuestionAnswer, Verdict};
use crate::engine::agent::Questioner;
use crate::interfaces::provider::scripted::{ScriptStep, ScriptedProvider, calls, says};
use crate::interfaces::provider::{ProviderFailureKind, ToolSpec};
use crate::interfaces::tool::{Context, Tool, ToolError, workspace_tools};
use async_trait::async_trait;
use serde_json::Value;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time limit of a turn.
const TIME_MAX: Duration = Duration::from_secs(600);
/// The time after which a turn is stopped.
const STOPPED_AFTER: Duration = Duration::from_secs(5);
/// The longest time that a turn goes on after its end was requested.
const END_MAX: Duration = Duration::from_secs(1);

const ASK: &str = r#"{"question":"How many?","choices":[],"minutes":600}"#;

/// A wait of a turn that nothing ends but its time or a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnWait {
    Gate,
    Answer,
    DeafModel,
    Fallback,
    Summary,
    Tool,
    ToolBesideAnother,
    Check,
    Person,
    DeafPerson,
}

const ALL: [TurnWait; 10] = [
    TurnWait::Gate,
    TurnWait::Answer,
    TurnWait::DeafModel,
    TurnWait::Fallback,
    TurnWait::Summary,
    TurnWait::Tool,
    TurnWait::ToolBesideAnother,
    TurnWait::Check,
    TurnWait::Person,
    TurnWait::DeafPerson,
];

/// A person who never answers.
struct SilentPerson {
    is_deaf: bool,
}

#[async_trait]
impl Questioner for SilentPerson {
    async fn ask(&self, _question: &AskedQuestion, cancel: &CancellationToken) -> QuestionAnswer {
        cancel.cancelled().await;
        match self.is_deaf {
            true => std::future::pending().await,
            false => QuestionAnswer::Stopped,
        }
    }
}

impl TurnWait {
    /// Returns a fixture, a script and a conversation with which a turn comes to this wait.
    fn scene(self) -> (TurnFixture, Vec<ScriptStep>, History) {
        let mut fixture = TurnFixture::new();
        fixture.limits.turn_time_max = TIME_MAX;
        let mut history = History::default();
        let hang = ("1", "hang", "");
        let script = match self {
            Self::Gate => vec![ScriptStep::Wait],
            Self::Answer => vec![ScriptStep::Stall],
            Self::DeafModel => vec![ScriptStep::Deaf],
            Self::Fallback => {
                let second = Arc::new(ScriptedProvider::new([ScriptStep::Stall]));
                fixture.fallbacks = vec![(second, "second", ModelFacts::default())];
                vec![ScriptStep::fails(ProviderFailureKind::Overloaded, "")]
            }
            Self::Summary => {
                fixture.limits.history_bytes_max = 100_000;
                fixture.limits.context_strategy = ContextStrategyName::Compact;
                history = long_history();
                vec![ScriptStep::Stall, says("never")]
            }
            Self::Tool => vec![calls(&[hang]), says("never")],
            Self::ToolBesideAnother => vec![calls(&[("0", "slow_read", "{}"), hang]), says("never")],
            Self::Check => {
                fixture.postconditions.takes_forever = true;
                vec![write("1", "a.txt", "1\n"), says("Done.")]
            }
            Self::Person | Self::DeafPerson => {
                let is_deaf = self == Self::DeafPerson;
                fixture.questioner = Some(Box::new(SilentPerson { is_deaf }));
                vec![calls(&[("q", "ask_user", ASK)]), says("never")]
            }
        };
        (fixture, script, history)
    }

    /// Returns the verdict of a turn that ends at this wait; `ended` is the one for its way to end.
    fn verdict(self, ended: Verdict) -> Verdict {
        match self {
            // The model has answered, so there is an answer, without the check of its files.
            Self::Check => Verdict::Incomplete,
            _ => ended,
        }
    }
}

/// Runs a turn that is stopped after a time, and returns it with the time that it took.
async fn run(wait: TurnWait, stopped_after: Duration) -> (TurnRun, Duration) {
    let (fixture, script, mut history) = wait.scene();
    let model = ScriptedProvider::new(script);
    let began = Instant::now();
    let running = fixture.run_on(&model, &mut history, MemoryJournal::default());
    let stop = async {
        tokio::time::sleep(stopped_after).await;
        fixture.cancel.cancel();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ran = running => (ran, began.elapsed()),
        () = stop => unreachable!(),
        () = tokio::time::sleep(stopped_after + 4 * TIME_MAX) => panic!("{wait:?} never ends"),
    }
}

/// R28
#[tokio::test(start_paused = true)]
async fn every_wait_of_a_turn_ends_with_its_time() {
    for wait in ALL {
        // The time does not run while the person is asked.
        if matches!(wait, TurnWait::Person | TurnWait::DeafPerson) {
            continue;
        }
        let (ran, took) = run(wait, 2 * TIME_MAX).await;
        assert_eq!(ran.outcome().verdict, wait.verdict(Verdict::Limit), "{wait:?}");
        assert!(
            TIME_MAX <= took && took < TIME_MAX + END_MAX,
            "{wait:?}: {took:?}"
        );
    }
}

/// STK-43
#[tokio::test(start_paused = true)]
async fn every_wait_of_a_turn_ends_within_a_second_of_a_stop() {
    for wait in ALL {
        let (ran, took) = run(wait, STOPPED_AFTER).await;
        assert_eq!(
            ran.outcome().verdict,
            wait.verdict(Verdict::Cancelled),
            "{wait:?}"
        );
        assert!(
            STOPPED_AFTER <= took && took < STOPPED_AFTER + END_MAX,
            "{wait:?}: {took:?}"
        );
    }
}

/// A tool that reads on a thread of its own, which stays blocked.
struct BlockedReader {
    begun: tokio::sync::Semaphore,
    go_on: Mutex<Option<mpsc::Receiver<()>>>,
}

#[async_trait]
impl Tool for BlockedReader {
    fn spec(&self) -> ToolSpec {
        let all = workspace_tools();
        let status = all.iter().find(|tool| tool.spec().name == "git_status");
        ToolSpec {
            name: "blocked",
            ..status.unwrap().spec()
        }
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }

    async fn call(&self, _cx: Context<'_>, _arguments: Value) -> Result<String, ToolError> {
        let go_on = self.go_on.lock().unwrap().take().unwrap();
        let blocked = tokio::task::spawn_blocking(move || go_on.recv().is_ok());
        self.begun.add_permits(1);
        blocked.await.unwrap();
        Ok("read".to_owned())
    }
}

/// R28, STK-43: the clock of this test is real, because a paused one does not run while a thread is blocked.
#[tokio::test]
async fn a_thread_that_stays_blocked_holds_no_turn() {
    for by_stop in [false, true] {
        let (go_on, blocked) = mpsc::channel();
        let tool = Arc::new(BlockedReader {
            begun: tokio::sync::Semaphore::new(0),
            go_on: Mutex::new(Some(blocked)),
        });
        let mut fixture = TurnFixture::new().with_tool(Arc::clone(&tool) as Arc<dyn Tool>);
        if !by_stop {
            fixture.limits.turn_time_max = Duration::from_secs(1);
        }
        let model = ScriptedProvider::new([calls(&[("1", "blocked", "{}")]), says("never")]);
        let stop = async {
            let _begun = tool.begun.acquire().await.unwrap();
            if by_stop {
                fixture.cancel.cancel();
            }
        };
        let running = async { tokio::join!(fixture.run(&model), stop) };
        let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
        // The thread is released before anything is asserted, so that a failure does not block the runtime.
        go_on.send(()).unwrap();
        let (ran, ()) = ended.expect("the turn ends");
        let expected = match by_stop {
            true => Verdict::Cancelled,
            false => Verdict::Limit,
        };
        assert_eq!(ran.outcome().verdict, expected);
    }
}
