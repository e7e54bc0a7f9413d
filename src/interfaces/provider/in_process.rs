//! A provider whose service is in this process, for tests. Requests are encoded, failed attempts repeated and answers
//! decoded as over HTTP; only the connection is missing. The service reads each request in every wire format.

use super::codec::{AnswerMode, Codec};
use super::failure::{FailureSubject, ProviderFailure, from_decoding, from_status};
use super::failure_kind::ProviderFailureKind;
use super::gate::ProviderGate;
use super::refusals::ModelRefusals;
use super::retry::{RetryPolicy, RetryableCall, call_with_retries};
use super::{
    Completion, EventSink, Provider, ProviderError, TurnRequest, codec, first_of_each_format, own_blocks,
};
use crate::base::config::{KnownProvider, WireFormat};
use crate::base::model::Secret;
use async_trait::async_trait;
use http::{HeaderMap, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// The time after which a service that does not answer is given up.
const SILENCE_TIME: Duration = Duration::from_secs(30);
/// The bytes of a streamed answer that arrive at once.
const CHUNK_BYTES: usize = 256;
/// The number of attempts of a call.
const ATTEMPTS_MAX: u32 = 5;

/// A request in one wire format.
pub(crate) struct EncodedRequest {
    pub(crate) wire: WireFormat,
    /// The path below the base URL.
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// The answer of a service to one attempt.
pub(crate) enum ServedAnswer {
    /// A status and a body.
    Body(u16, String),
    /// No answer in time.
    Silence,
}

/// A service in this process.
pub(crate) trait InProcessService: Send + Sync {
    /// Receives a request in every wire format, that of the provider first.
    fn receive(&self, requests: &[EncodedRequest], request: &TurnRequest<'_>);

    /// Answers the last request. It is called once for each attempt.
    fn answer(&self) -> ServedAnswer;
}

/// A provider whose service is in this process.
pub(crate) struct InProcessProvider {
    known: &'static KnownProvider,
    codec: Box<dyn Codec>,
    /// The codecs of the other wire formats, each with its usual provider.
    others: Vec<(WireFormat, Box<dyn Codec>)>,
    answer_mode: AnswerMode,
    gate: ProviderGate,
    refusals: ModelRefusals,
    service: Arc<dyn InProcessService>,
}

impl InProcessProvider {
    pub(crate) fn new(
        known: &'static KnownProvider,
        answer_mode: AnswerMode,
        service: Arc<dyn InProcessService>,
    ) -> Self {
        let others = first_of_each_format()
            .into_iter()
            .filter(|other| other.wire != known.wire);
        Self {
            known,
            codec: codec(known.wire, known.id, known.name),
            others: others
                .map(|other| (other.wire, codec(other.wire, other.id, other.name)))
                .collect(),
            answer_mode,
            gate: ProviderGate::default(),
            refusals: ModelRefusals::default(),
            service,
        }
    }

    fn encoded(
        &self,
        (wire, codec): (WireFormat, &dyn Codec),
        request: &TurnRequest<'_>,
    ) -> Result<EncodedRequest, ProviderError> {
        let rejected = |why: &str| {
            ProviderError::Failed(ProviderFailure::new(
                ProviderFailureKind::Rejected,
                why.to_owned(),
            ))
        };
        let body = codec.encode(request, self.answer_mode);
        let key = Secret::new("sk-ant-test".to_owned());
        let headers = codec.headers(Some(&key)).unwrap_or_default();
        Ok(EncodedRequest {
            wire,
            path: codec.path(request.model, self.answer_mode),
            headers: headers.into_iter().collect(),
            body: body.map_err(|_| rejected("the conversation cannot be encoded"))?,
        })
    }
}

#[async_trait]
impl Provider for InProcessProvider {
    fn id(&self) -> &str {
        self.known.name
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        sink: EventSink<'_>,
        cancel: &CancellationToken,
    ) -> Result<Completion, ProviderError> {
        self.refusals.check(request.model, request.patience)?;
        let own = (self.known.wire, &*self.codec);
        let others = self.others.iter().map(|(wire, codec)| (*wire, &**codec));
        let encoded: Result<Vec<_>, _> = std::iter::once(own)
            .chain(others)
            .map(|format| self.encoded(format, &request))
            .collect();
        self.service.receive(&encoded?, &request);
        let attempt = InProcessAttempt {
            provider: self,
            model: request.model,
        };
        let policy = RetryPolicy {
            attempts_max: ATTEMPTS_MAX,
            patience: request.patience,
        };
        let answer = call_with_retries(&attempt, &self.gate, policy, 1, sink, cancel).await;
        self.refusals.record(request.model, &answer);
        answer.map(|completion| own_blocks::marked(completion, request.model))
    }
}

struct InProcessAttempt<'a> {
    provider: &'a InProcessProvider,
    model: &'a str,
}

#[async_trait]
impl RetryableCall for InProcessAttempt<'_> {
    async fn attempt(&self, sink: EventSink<'_>) -> Result<Completion, ProviderFailure> {
        // The request is on its way: a stop that has come is seen here.
        tokio::task::yield_now().await;
        let (provider, model) = (self.provider, self.model);
        let subject = FailureSubject {
            provider: provider.known.name,
            model,
            other_format: None,
        };
        let (status, body) = match provider.service.answer() {
            ServedAnswer::Body(status, body) => (status, body),
            ServedAnswer::Silence => {
                tokio::time::sleep(SILENCE_TIME).await;
                return Err(ProviderFailure::new(ProviderFailureKind::Silent, ""));
            }
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if !status.is_success() {
            return Err(from_status(subject, status, &HeaderMap::new(), body.as_bytes()));
        }
        let decoded = match provider.answer_mode {
            AnswerMode::Whole => provider.codec.decode(body.as_bytes()),
            AnswerMode::Streamed => {
                let mut decoder = provider.codec.decoder();
                for chunk in body.as_bytes().chunks(CHUNK_BYTES) {
                    let events = decoder.push(chunk);
                    let events = events.map_err(|error| from_decoding(subject, error))?;
                    events.into_iter().for_each(&mut *sink);
                    if decoder.is_complete() {
                        break;
                    }
                }
                decoder.finish()
            }
        };
        decoded.map_err(|error| from_decoding(subject, error))
    }
}
