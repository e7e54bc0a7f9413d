//! The adapter that turns the declaration of a tool into a [`Tool`]. It renders the schema once, parses the arguments
//! before the function runs, waits for a place if the tool is expensive, ends the wait when the turn is stopped, and
//! makes invisible characters in the answer visible.

use super::arguments::{ToolArguments, bind, subject};
use super::{Context, Tool, ToolError, invisible, schema};
use crate::base::model::Effect;
use crate::interfaces::provider::ToolSpec;
use crate::rendering::jsonnet::{Budget, FairSlot, FairSlots, Urgency};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The declaration of a tool: its name, arguments, effect and function.
pub(super) trait ToolBody: Sized + Send + Sync + 'static {
    /// The arguments of the tool.
    type Arguments: ToolArguments;
    /// The part of the context that the tool uses, or more, with the services that it needs.
    type CallContext: Send + Sync + 'static;

    /// The name of the tool.
    const NAME: &'static str;
    /// The description for the model, in one or two sentences.
    const DESCRIPTION: &'static str;
    /// The effect a call may have.
    const EFFECT: Effect;
    /// Arguments of calls as a model writes them, for a repository like that of the demo. Tests make these calls for
    /// every role, and each call that names `environments/dev` for `environments/prod` as well.
    const EXAMPLES: &'static [&'static str];
    /// The terminal command with the same function, such as `jb list`.
    const COMMAND: Option<&'static str> = None;
    /// The function that answers a call.
    const RUN: ToolFunction<Self>;
}

/// The function of a tool.
pub(super) enum ToolFunction<T: ToolBody> {
    /// A function that may block. It runs on a thread for blocking work.
    Blocking(fn(&T::CallContext, T::Arguments) -> Result<String, ToolError>),
    /// A function that waits, for example for an evaluation, without blocking a thread.
    Async(AsyncFunction<T::CallContext, T::Arguments>),
}

/// A function that waits.
type AsyncFunction<C, A> = for<'a> fn(&'a C, A) -> BoxFuture<'a, Result<String, ToolError>>;

/// A function that extracts the part of a call's context that a tool uses.
type ContextExtractor<C> = Box<dyn Fn(Context<'_>) -> C + Send + Sync>;

/// An adapter from a [`ToolBody`] to a [`Tool`].
pub(super) struct ToolAdapter<T: ToolBody> {
    spec: ToolSpec,
    extract_context: ContextExtractor<T::CallContext>,
    places: Option<FairSlots>,
}

impl<T: ToolBody> ToolAdapter<T> {
    /// Creates a tool that uses a part of the context.
    pub(super) fn new() -> Self
    where
        T::CallContext: for<'a> From<Context<'a>>,
    {
        Self::with_context(|cx| T::CallContext::from(cx))
    }

    /// Creates a tool with its own context, and renders the schema.
    pub(super) fn with_context(take: impl Fn(Context<'_>) -> T::CallContext + Send + Sync + 'static) -> Self {
        let spec = ToolSpec {
            name: T::NAME,
            description: T::DESCRIPTION,
            schema: schema::render::<T::Arguments>().into(),
        };
        Self {
            spec,
            extract_context: Box::new(take),
            places: None,
        }
    }

    /// Limits concurrent calls of a tool that needs much memory or time. Waiting calls get places in turn, by user.
    pub(super) fn limited_by(self, places: &FairSlots) -> Self {
        Self {
            places: Some(places.clone()),
            ..self
        }
    }

    fn bind(&self, arguments: Value) -> Result<T::Arguments, ToolError> {
        bind(T::NAME, &self.spec.schema, arguments).map_err(escape_error)
    }

    async fn acquire_place(&self, cancel: &CancellationToken) -> Result<Option<FairSlot>, ToolError> {
        let Some(places) = &self.places else {
            return Ok(None);
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(stopped()),
            place = places.take(Budget::current().tenant(), Urgency::Single) => Ok(Some(place)),
        }
    }
}

#[async_trait]
impl<T: ToolBody> Tool for ToolAdapter<T> {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn effect(&self) -> Effect {
        T::EFFECT
    }

    fn subject<'a>(&self, arguments: &'a Value) -> Option<&'a str> {
        subject::<T::Arguments>(arguments)
    }

    fn examples(&self) -> &'static [&'static str] {
        T::EXAMPLES
    }

    fn command(&self) -> Option<&'static str> {
        T::COMMAND
    }

    fn check(&self, arguments: Value) -> Result<(), ToolError> {
        self.bind(arguments).map(drop)
    }

    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError> {
        let arguments = self.bind(arguments)?;
        let context = (self.extract_context)(cx);
        let place = self.acquire_place(cx.cancel).await?;
        match T::RUN {
            ToolFunction::Blocking(run) => {
                let work = move || {
                    // The place is released when the work is done, even if the caller has stopped waiting.
                    let _place = place;
                    show_invisible(run(&context, arguments))
                };
                unless_stopped(cx.cancel, work).await
            }
            ToolFunction::Async(run) => {
                let _place = place;
                tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => Err(stopped()),
                    answer = run(&context, arguments) => show_invisible(answer),
                }
            }
        }
    }
}

/// Makes invisible characters in the result of a call visible.
pub(super) fn show_invisible(result: Result<String, ToolError>) -> Result<String, ToolError> {
    match result {
        Ok(answer) => Ok(invisible::reveal(&answer).into_owned()),
        Err(err) => Err(escape_error(err)),
    }
}

/// Makes invisible characters in an error visible; its message may quote paths and arguments.
pub(super) fn escape_error(err: ToolError) -> ToolError {
    match err {
        ToolError::Failed(why) => ToolError::Failed(invisible::show(&why)),
        ToolError::Malformed(why) => ToolError::Malformed(invisible::show(&why)),
        ToolError::Refused { answer, why } => ToolError::Refused {
            answer: invisible::show(&answer),
            why: invisible::show(&why),
        },
        ToolError::Fatal(err) => ToolError::Fatal(err),
    }
}

/// Waits for blocking work, at most until the turn is stopped. Abandoned work ends by itself: it is bounded, and
/// writes check the cancellation token again before they write.
pub(super) async fn unless_stopped<T: Send + 'static>(
    cancel: &CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cancel.is_cancelled() {
        return Err(stopped());
    }
    let budget = Budget::current();
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(stopped()),
        done = tokio::task::spawn_blocking(move || budget.charge_blocking(work)) => match done {
            Ok(answer) => answer,
            Err(err) => Err(ToolError::Fatal(anyhow::Error::new(err).context("a tool ended with an internal error"))),
        },
    }
}

/// Returns the answer of a call whose turn was stopped.
pub(super) fn stopped() -> ToolError {
    ToolError::Failed("the turn was stopped".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{ToolAdapter, ToolError, unless_stopped};
    use crate::base::model::UserId;
    use crate::interfaces::tool::git_show::GitShow;
    use crate::rendering::jsonnet::{Budget, FairSlots};
    use futures_util::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    /// T54: a user who holds all places waits for one of their own, in every conversation.
    #[test]
    fn expensive_calls_take_turns_between_people() {
        let (places, cancel) = (FairSlots::new(2), CancellationToken::new());
        let tool = ToolAdapter::<GitShow>::new().limited_by(&places);
        let of = |person: i64| {
            let place = Budget::for_person(UserId(person)).charge(tool.acquire_place(&cancel));
            place.now_or_never().map(|place| place.unwrap().unwrap())
        };
        let alice = [of(1), of(1)].map(Option::unwrap);
        assert!(of(1).is_none());
        let bob = of(2).unwrap();
        assert!(of(2).is_none());
        drop((alice, bob));
        assert!(of(1).is_some());
        // A stopped turn does not wait.
        let taken = [of(1), of(1)];
        cancel.cancel();
        let refused = Budget::for_person(UserId(1))
            .charge(tool.acquire_place(&cancel))
            .now_or_never();
        assert!(matches!(refused, Some(Err(ToolError::Failed(why))) if why == "the turn was stopped"));
        drop(taken);
    }

    /// T54: the work of a blocking thread is charged to the user who made the call.
    #[tokio::test]
    async fn a_blocking_thread_is_charged_to_the_person_of_its_task() {
        let call = async {
            let cancel = CancellationToken::new();
            unless_stopped(&cancel, || Ok(format!("{:?}", Budget::current().tenant()))).await
        };
        let answer = Budget::for_person(UserId(7)).charge(call).await;
        assert_eq!(answer.unwrap(), "Person(UserId(7))");
    }

    #[tokio::test]
    async fn a_stopped_turn_does_not_wait_for_its_tools() {
        let cancel = CancellationToken::new();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let call = unless_stopped(&cancel, move || {
            // `recv` returns when the sender is dropped, long after the call has returned.
            Ok(format!("{:?}", held.recv()))
        });
        let stop = async { cancel.cancel() };
        let (answer, ()) = tokio::join!(call, stop);
        assert!(matches!(answer, Err(ToolError::Failed(why)) if why == "the turn was stopped"));
        drop(release);
    }

    #[tokio::test]
    async fn nothing_starts_in_a_stopped_turn() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let answer = unless_stopped(&cancel, || Ok("never".to_owned())).await;
        assert!(matches!(answer, Err(ToolError::Failed(why)) if why == "the turn was stopped"));
    }

    /// TK-48
    #[tokio::test]
    async fn a_tool_that_panics_ends_the_turn_and_not_the_process() {
        let answer = unless_stopped::<String>(&CancellationToken::new(), || panic!("broken")).await;
        assert!(matches!(answer, Err(ToolError::Fatal(_))));
    }
}
