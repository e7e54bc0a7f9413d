//! One attempt to call a model over HTTP, with its deadlines and limits. Cancel-safe. This module knows no wire
//! format and no retry policy.

use super::codec::{AnswerMode, Codec, DecodeError};
use super::error_report::refuses_tool_choice;
use super::failure::{FailureSubject, ProviderFailure, from_decoding, from_status};
use super::failure_kind::ProviderFailureKind;
use super::gate::ProviderGate;
use super::own_blocks;
use super::refusals::ModelRefusals;
use super::retry::{RetryPolicy, RetryableCall, call_with_retries};
use super::sse::STREAM_BYTES_MAX;
use super::{Completion, EventSink, Provider, ProviderError, StreamEvent, ToolChoice, TurnRequest};
use crate::base::http_client::causes_without_url;
use crate::base::model::{ContentBlock, Secret};
use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

/// The maximum number of bytes of an error body that are read.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The longest wait after a complete answer for the end of the response, so that its connection can be reused.
const TAIL_TIME_MAX: Duration = Duration::from_millis(100);

/// A model behind an HTTP API.
pub(super) struct HttpProvider {
    /// The name in the configuration.
    pub(super) id: String,
    /// The wire format.
    pub(super) codec: Box<dyn Codec>,
    /// The URL that the paths of requests are below, without a slash at the end.
    pub(super) base_url: String,
    /// The key, if there is one.
    pub(super) api_key: Option<Secret>,
    /// The delivery of answers.
    pub(super) answer_mode: AnswerMode,
    /// Time limit of one attempt, from the headers to the last byte.
    pub(super) attempt_time_max: Duration,
    /// The longest time between two chunks of an answer.
    pub(super) idle_time_max: Duration,
    /// The maximum number of attempts of one call.
    pub(super) attempts_max: u32,
    /// The gate, shared by all callers of this provider.
    pub(super) gate: ProviderGate,
    /// The recent refusals, for callers with another model.
    pub(super) refusals: ModelRefusals,
    /// The HTTP client, shared by all providers.
    pub(super) client: reqwest::Client,
}

impl HttpProvider {
    /// Returns the URL of requests to a model. The path may have the version of the API that the base URL ends with.
    pub(super) fn url(&self, model: &str) -> String {
        let path = self.codec.path(model, self.answer_mode);
        let base_url = match path.starts_with("/v1/") {
            true => self.base_url.strip_suffix("/v1").unwrap_or(&self.base_url),
            false => &self.base_url,
        };
        format!("{base_url}{path}")
    }
}

#[async_trait]
impl Provider for HttpProvider {
    fn id(&self) -> &str {
        &self.id
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.refusals.check(request.model, request.patience)?;
        let body = self.codec.encode(&request, self.answer_mode);
        let body = body.map_err(|_| {
            let why = "the conversation cannot be encoded";
            ProviderError::Failed(ProviderFailure::new(ProviderFailureKind::Rejected, why))
        })?;
        let mut hasher = DefaultHasher::new();
        (request.identity.user(), &body).hash(&mut hasher);
        let attempt = Attempt {
            provider: self,
            request,
            url: self.url(request.model),
            body: body.into(),
        };
        let policy = RetryPolicy {
            attempts_max: self.attempts_max,
            patience: request.patience,
        };
        let answer = call_with_retries(&attempt, &self.gate, policy, hasher.finish(), sink, cancel).await;
        self.refusals.record(request.model, &answer);
        answer.map(|completion| own_blocks::marked(completion, request.model))
    }
}

/// A model call that can be sent several times.
struct Attempt<'a> {
    provider: &'a HttpProvider,
    request: TurnRequest<'a>,
    url: String,
    body: Bytes,
}

#[async_trait]
impl RetryableCall for Attempt<'_> {
    async fn attempt(&self, sink: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        let provider = self.provider;
        let deadlines = Deadlines {
            end: Instant::now() + provider.attempt_time_max,
            idle_time_max: provider.idle_time_max,
        };
        let mut response = self.send(&self.body, &deadlines).await?;
        if !response.status().is_success() {
            let refusal = Refusal::read(&mut response, &deadlines).await;
            // Some models think in each answer, and their services then refuse every forced call. Others do not know that
            // calls can be forbidden. Such a refusal costs nothing, and the model can still do it of its own accord.
            let free = self.free_body(&refusal);
            let free = free.ok_or_else(|| refusal.failure(self.subject()))?;
            debug!(provider.id = %provider.id, "a choice of tools was refused; asking again without it");
            response = self.send(&free, &deadlines).await?;
            if !response.status().is_success() {
                let refusal = Refusal::read(&mut response, &deadlines).await;
                return Err(refusal.failure(self.subject()));
            }
        }
        // Some servers never stream.
        if provider.answer_mode == AnswerMode::Streamed && !is_json(response.headers()) {
            return self.read_stream(&mut response, &deadlines, sink).await;
        }
        let body = read_whole(&mut response, &deadlines, STREAM_BYTES_MAX).await;
        let body = body.map_err(|error| self.unread(error))?;
        let completion = provider
            .codec
            .decode(&body)
            .map_err(|error| from_decoding(self.subject(), error))?;
        emit_events(&completion, sink);
        Ok(completion)
    }
}

/// Emits the events of an answer that was delivered whole, as a stream would have done.
fn emit_events(completion: &Completion, sink: EventSink<'_>) {
    for block in &completion.assistant.blocks {
        match block {
            ContentBlock::Text { text } => sink(StreamEvent::Text(text.clone())),
            ContentBlock::Call(call) => sink(StreamEvent::CallStarted {
                name: call.name.clone(),
            }),
        }
    }
}

/// An answer with an error status.
struct Refusal {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Refusal {
    async fn read(response: &mut reqwest::Response, deadlines: &Deadlines) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = read_whole(response, deadlines, ERROR_BYTES_MAX).await;
        Self {
            status,
            headers,
            // The status alone is enough if the body cannot be read.
            body: body.unwrap_or_default(),
        }
    }

    fn failure(&self, subject: FailureSubject<'_>) -> ProviderFailure {
        from_status(subject, self.status, &self.headers, &self.body)
    }
}

impl Attempt<'_> {
    /// Returns the request without its choice of tools, if it has one and the service refuses it for that. A tool that was
    /// forced is then the only one.
    fn free_body(&self, refusal: &Refusal) -> Option<Bytes> {
        let has_choice = self.request.forced_tool().is_some() || self.request.forbids_calls();
        if !has_choice || !refuses_tool_choice(refusal.status, &refusal.body) {
            return None;
        }
        let request = TurnRequest {
            tools: self.request.callable_tools(),
            tool_choice: ToolChoice::Free,
            ..self.request
        };
        let encoded = self.provider.codec.encode(&request, self.provider.answer_mode);
        encoded.ok().map(Bytes::from)
    }

    fn subject(&self) -> FailureSubject<'_> {
        FailureSubject {
            provider: &self.provider.id,
            model: self.request.model,
            other_format: self.provider.codec.rarely_supported(),
        }
    }

    async fn send(&self, body: &Bytes, deadlines: &Deadlines) -> Result<reqwest::Response, ProviderFailure> {
        let id = &self.provider.id;
        let mut request = self
            .provider
            .client
            .post(&self.url)
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(
                ACCEPT,
                HeaderValue::from_static(match self.provider.answer_mode {
                    AnswerMode::Streamed => "text/event-stream",
                    AnswerMode::Whole => "application/json",
                }),
            )
            .body(body.clone());
        let headers = self.provider.codec.headers(self.provider.api_key.as_ref());
        for (name, value) in headers.unwrap_or_default() {
            request = request.header(name, value);
        }
        match timeout_at(deadlines.end, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => {
                let (connect, timeout) = (error.is_connect(), error.is_timeout());
                debug!(provider.id = %id, "{id} not reached: {}", causes_without_url(error));
                Err(match (connect, timeout) {
                    (true, _) => ProviderFailure::new(
                        ProviderFailureKind::Unreached,
                        format!("no connection; check the network and `providers.{id}.base_url`"),
                    ),
                    (false, true) => {
                        ProviderFailure::new(ProviderFailureKind::Silent, "there was no answer in time")
                    }
                    (false, false) => ProviderFailure::new(
                        ProviderFailureKind::Silent,
                        "the connection was closed before an answer",
                    ),
                })
            }
            Err(_) => Err(ProviderFailure::new(
                ProviderFailureKind::Silent,
                format!(
                    "no answer arrived within {} s (`providers.{id}.request_seconds_max`)",
                    self.provider.attempt_time_max.as_secs()
                ),
            )),
        }
    }

    async fn read_stream(
        &self,
        chunks: &mut dyn Chunks,
        deadlines: &Deadlines,
        sink: EventSink<'_>,
    ) -> Result<Completion, ProviderFailure> {
        let mut decoder = self.provider.codec.decoder();
        while !decoder.is_complete() {
            let Some(chunk) = deadlines.next(chunks).await.map_err(|error| self.unread(error))? else {
                break;
            };
            let events = decoder
                .push(&chunk)
                .map_err(|error| from_decoding(self.subject(), error))?;
            events.into_iter().for_each(&mut *sink);
        }
        if decoder.is_complete() {
            // Reading to the end makes the connection reusable. The wait for the end is short.
            let tail = timeout_at(Instant::now() + TAIL_TIME_MAX, chunks.next());
            drop(tail.await);
        }
        decoder
            .finish()
            .map_err(|error| from_decoding(self.subject(), error))
    }

    fn unread(&self, error: ReadError) -> ProviderFailure {
        let (id, provider) = (&self.provider.id, self.provider);
        match error {
            ReadError::Idle => ProviderFailure::new(
                ProviderFailureKind::Broken,
                format!(
                    "no more data arrived for {} s (`providers.{id}.idle_seconds_max`)",
                    provider.idle_time_max.as_secs()
                ),
            ),
            ReadError::Late => ProviderFailure::new(
                ProviderFailureKind::Broken,
                format!(
                    "it took longer than {} s (`providers.{id}.request_seconds_max`)",
                    provider.attempt_time_max.as_secs()
                ),
            ),
            ReadError::Broken => {
                ProviderFailure::new(ProviderFailureKind::Broken, "the connection was closed")
            }
            ReadError::TooLong => from_decoding(self.subject(), DecodeError::TooLong),
        }
    }
}

/// The deadlines of one attempt.
struct Deadlines {
    end: Instant,
    idle_time_max: Duration,
}

/// The reason why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadError {
    /// The time between two chunks was too long.
    Idle,
    /// The attempt took too long.
    Late,
    /// The connection broke.
    Broken,
    /// The body exceeds its limit.
    TooLong,
}

/// A body that arrives in pieces.
#[async_trait]
trait Chunks: Send {
    /// Returns the next piece; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ReadError>;
}

#[async_trait]
impl Chunks for reqwest::Response {
    async fn next(&mut self) -> Result<Option<Bytes>, ReadError> {
        self.chunk().await.map_err(|error| {
            debug!("the body was interrupted: {}", causes_without_url(error));
            ReadError::Broken
        })
    }
}

impl Deadlines {
    async fn next(&self, chunks: &mut dyn Chunks) -> Result<Option<Bytes>, ReadError> {
        let idle = Instant::now() + self.idle_time_max;
        match timeout_at(idle.min(self.end), chunks.next()).await {
            Ok(read) => read,
            Err(_) if idle < self.end => Err(ReadError::Idle),
            Err(_) => Err(ReadError::Late),
        }
    }
}

async fn read_whole(
    chunks: &mut dyn Chunks,
    deadlines: &Deadlines,
    bytes_max: usize,
) -> Result<Vec<u8>, ReadError> {
    let mut body = Vec::new();
    while let Some(chunk) = deadlines.next(chunks).await? {
        if body.len() + chunk.len() > bytes_max {
            return Err(ReadError::TooLong);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| {
        value
            .trim_start()
            .to_ascii_lowercase()
            .starts_with("application/json")
    })
}

#[cfg(test)]
mod tests;
