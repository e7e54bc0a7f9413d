//! The start of a run on a server, and the watch of it to its end. A lost connection is made again a bounded number of times;
//! the number begins anew once the server has answered, so the run itself bounds the watch.

use super::client::{RunOrderToServer, RunRequestFailure, RunServer, StartedRun};
use super::document::RemoteRun;
use super::events::{ArrivedEvents, SentRunEvent};
use super::progress::RunProgress;
use super::refusal;
use crate::base::model::RunId;
use crate::cli::CliError;
use crate::cli::output::Output;
use crate::cli::server_request::{ServerAnswer, strange_answer};
use reqwest::StatusCode;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The seconds before each further try of a request. After the last one there is none.
const PAUSES: [u64; 6] = [1, 2, 4, 8, 15, 15];
/// The longest pause, also if the server asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The longest time without any event. A server sends a comment every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The failure of a request that may succeed later.
struct LaterTry {
    why: String,
    seconds: Option<u64>,
}

impl LaterTry {
    /// Returns the one after an answer that there are too many requests.
    fn of_too_many(answer: &ServerAnswer) -> Self {
        Self {
            why: refusal::reason(answer).unwrap_or_else(|| "there are too many requests".to_owned()),
            seconds: answer.seconds,
        }
    }

    /// Waits before the next try. Returns false if there is none.
    async fn wait(&self, pauses: &mut impl Iterator<Item = u64>) -> bool {
        let Some(pause) = pauses.next() else {
            return false;
        };
        let seconds = self.seconds.unwrap_or_default().max(pause);
        sleep(Duration::from_secs(seconds).min(PAUSE_MAX)).await;
        true
    }
}

/// Starts a run. A request whose answer is lost is sent again with the same key.
pub(super) async fn start(
    server: &RunServer<'_>,
    order: &RunOrderToServer<'_>,
    output: &Output,
) -> Result<StartedRun, CliError> {
    let mut pauses = PAUSES.into_iter();
    let mut earlier: Option<LaterTry> = None;
    loop {
        let failure = match server.start(order).await {
            Ok(started) => return Ok(started),
            Err(failure) => failure,
        };
        let later = next_start((server, order), failure, earlier.as_ref())?;
        if earlier.is_none() {
            output.message(&format!(
                "{} has not said whether the run has started ({}); the request is repeated.",
                server.url, later.why
            ));
        }
        if !later.wait(&mut pauses).await {
            return Err(CliError::failed(format!(
                "{} has not said whether the run has started ({}); {}",
                server.url,
                later.why,
                order.repetition()
            )));
        }
        earlier = Some(later);
    }
}

/// Returns the next try after a failed start, or the error that ends it. After an earlier try, a run may have started.
fn next_start(
    (server, order): (&RunServer<'_>, &RunOrderToServer<'_>),
    failure: RunRequestFailure,
    earlier: Option<&LaterTry>,
) -> Result<LaterTry, CliError> {
    match failure {
        RunRequestFailure::Unknown { why, seconds } => Ok(LaterTry { why, seconds }),
        RunRequestFailure::Unreached(why) if earlier.is_some() => Ok(LaterTry { why, seconds: None }),
        // Nothing was sent, and a person is told at once that the address is wrong.
        RunRequestFailure::Unreached(why) => Err(refusal::of_unreached(server, &why)),
        // The server may still follow the earlier request.
        RunRequestFailure::Refused(answer)
            if earlier.is_some() && answer.status == StatusCode::TOO_MANY_REQUESTS =>
        {
            Ok(LaterTry::of_too_many(&answer))
        }
        RunRequestFailure::Refused(answer) => Err(refusal::of_start(server, order, &answer)),
        RunRequestFailure::Strange(what) => {
            let known = format!(
                ", so it is not known whether the run has started ({})",
                order.repetition()
            );
            Err(strange_answer(server.url, &what, &known))
        }
    }
}

/// A run that is watched.
pub(super) struct FollowedRun<'a> {
    pub(super) server: &'a RunServer<'a>,
    pub(super) order: &'a RunOrderToServer<'a>,
    pub(super) progress: RunProgress<'a>,
    pub(super) output: &'a Output,
}

impl FollowedRun<'_> {
    /// Shows the states of a run up to its end, and returns the last one.
    pub(super) async fn follow(&mut self, first: RemoteRun) -> Result<RemoteRun, CliError> {
        self.progress.show(&first.facts);
        if first.has_ended() {
            return Ok(first);
        }
        let id = first.facts.id;
        let mut pauses = PAUSES.into_iter();
        let mut is_told = false;
        loop {
            let later = match self.watched(id).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => LaterTry {
                    why: "the connection ended".to_owned(),
                    seconds: None,
                },
                Err(failure) => self.later(id, failure)?,
            };
            if !is_told {
                self.output.message(&format!(
                    "The events of run {id} have stopped ({}); it is asked for again.",
                    later.why
                ));
            }
            is_told = true;
            if !later.wait(&mut pauses).await {
                return Err(CliError::failed(format!(
                    "{} does not answer any more ({}); run {id} goes on there; {}",
                    self.server.url,
                    later.why,
                    self.order.repetition()
                )));
            }
            match self.server.show(id).await {
                Ok(run) => {
                    self.progress.show(&run.facts);
                    if run.has_ended() {
                        return Ok(run);
                    }
                    pauses = PAUSES.into_iter();
                }
                // The next watch decides whether there is another try.
                Err(failure) => {
                    self.later(id, failure)?;
                }
            }
        }
    }

    /// Shows the states of a run as they are sent; `None` if the connection ends before the run.
    async fn watched(&mut self, id: RunId) -> Result<Option<RemoteRun>, RunRequestFailure> {
        let mut response = self.server.watch(id).await?;
        let mut arrived = ArrivedEvents::default();
        let mut last = None;
        loop {
            while let Some(event) = arrived.take_next() {
                match event {
                    SentRunEvent::Run(data) => {
                        let run = RemoteRun::read(&data)
                            .ok_or_else(|| RunRequestFailure::Strange("an event without a run".to_owned()))?;
                        self.progress.show(&run.facts);
                        last = Some(run);
                    }
                    SentRunEvent::End => return Ok(last.filter(RemoteRun::has_ended)),
                    SentRunEvent::Nothing => {}
                }
            }
            let Ok(Ok(Some(part))) = timeout(SILENCE_MAX, response.chunk()).await else {
                return Ok(last.filter(RemoteRun::has_ended));
            };
            arrived
                .push(&part)
                .map_err(|_| RunRequestFailure::Strange("an event that is too long".to_owned()))?;
        }
    }

    /// Returns the failure if another try may succeed, or the error that ends the watch.
    fn later(&self, id: RunId, failure: RunRequestFailure) -> Result<LaterTry, CliError> {
        match failure {
            RunRequestFailure::Unreached(why) => Ok(LaterTry { why, seconds: None }),
            RunRequestFailure::Unknown { why, seconds } => Ok(LaterTry { why, seconds }),
            RunRequestFailure::Refused(answer) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                Ok(LaterTry::of_too_many(&answer))
            }
            RunRequestFailure::Refused(answer) => Err(refusal::of_watch(self.server, id, &answer)),
            RunRequestFailure::Strange(what) => {
                let known = format!(", and run {id} goes on there");
                Err(strange_answer(self.server.url, &what, &known))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::token::{RequestToken, RequestTokenPlace};
    use super::{LaterTry, RunOrderToServer, RunRequestFailure, RunServer, ServerAnswer, next_start};
    use crate::base::model::Secret;
    use reqwest::StatusCode;

    /// Returns the reason for another try, or the error.
    fn next(failure: RunRequestFailure, earlier: Option<&LaterTry>) -> Result<String, String> {
        let token = RequestToken {
            secret: Secret::new("t".to_owned()),
            place: RequestTokenPlace::File,
        };
        let server = RunServer::new("https://drydock.example.com", &token).map_err(|error| error.message)?;
        let order = RunOrderToServer {
            pipeline: "review",
            repository: None,
            params: &[],
            key: "one".to_owned(),
        };
        let later = next_start((&server, &order), failure, earlier);
        later.map(|later| later.why).map_err(|error| error.message)
    }

    #[test]
    fn after_a_lost_answer_nobody_is_told_that_nothing_was_started() {
        let unreached = || RunRequestFailure::Unreached("no route".to_owned());
        let too_many = || {
            RunRequestFailure::Refused(ServerAnswer {
                status: StatusCode::TOO_MANY_REQUESTS,
                seconds: Some(5),
                body: br#"{"error":"too many","detail":"too many requests are open"}"#.to_vec(),
            })
        };
        for failure in [unreached(), too_many()] {
            let first = next(failure, None);
            assert!(
                first
                    .as_ref()
                    .is_err_and(|why| why.contains("nothing was started")),
                "{first:?}"
            );
        }
        let earlier = LaterTry {
            why: "the connection ended".to_owned(),
            seconds: None,
        };
        assert_eq!(next(unreached(), Some(&earlier)), Ok("no route".to_owned()));
        assert_eq!(
            next(too_many(), Some(&earlier)),
            Ok("too many requests are open".to_owned())
        );
        let strange = next(RunRequestFailure::Strange("a page".to_owned()), None);
        assert!(
            strange
                .as_ref()
                .is_err_and(|why| why.contains("not known whether the run has started")
                    && why.contains("--key one shows the run")),
            "{strange:?}"
        );
    }
}
