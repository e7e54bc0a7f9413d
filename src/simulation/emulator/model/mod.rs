//! A scripted model behind an API: Anthropic's Messages, OpenAI's chat completions and Responses, and Gemini's
//! `generateContent`, streamed and whole. It checks
//! every request like the real service, answers an invalid one with the real service's error, and records it.

// The wire formats.
mod anthropic;
mod gemini;
mod openai;
mod responses;
// The code that they share.
mod body;
mod conversation;
mod files;
mod script;
mod server;
mod wire_format;
#[cfg(test)]
mod tests;

pub use conversation::{
    ModelRequest, RequestCall, RequestMessage, RequestResult, RequestRole, RequestTool, RequestedCalls,
};
pub use files::RequestFile;
pub use script::{AnswerFault, AnswerQueue, AnswerScript, ScriptedAnswer, calls, queue, says};

use crate::base::config::{Config, ConfigError, ConfigSources, WireFormat};
use server::SharedModel;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire_format::EmulatedFormat;

/// The emulated wire formats.
const WIRE_FORMATS: &[&dyn EmulatedFormat] = &[
    &anthropic::Messages,
    &openai::ChatCompletions,
    &responses::Responses,
    &gemini::GeminiApi,
];

/// A running emulator. Stops when dropped.
pub struct ModelEmulator {
    url: String,
    shared: Arc<SharedModel>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl ModelEmulator {
    /// Starts an emulator on a free loopback port. Needs a running tokio runtime.
    pub fn start(script: impl AnswerScript + 'static) -> std::io::Result<Self> {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let url = format!("http://{}", listener.local_addr()?);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let shared = Arc::new(SharedModel::new(Box::new(script)));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        tasks.spawn(server::accept(listener, shared.clone(), stop.clone()));
        Ok(Self {
            url,
            shared,
            stop,
            tasks,
        })
    }

    /// Returns the base URL, without a slash at the end. Chat completions are at `/v1/chat/completions`, which
    /// requires a key, and at `/chat/completions`, which does not.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the base URL of a wire format, at which requests need a key.
    pub fn base_url(&self, wire: WireFormat) -> String {
        let format = WIRE_FORMATS.iter().find(|format| format.wire() == wire);
        let path = format.map_or("", |format| format.base_path());
        format!("{}{path}", self.url)
    }

    /// Returns the configuration of a program whose model is this emulator.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let key = "sent-to-nobody-0123456789".to_owned();
        Config::for_terminal(ConfigSources {
            environment: [("ANTHROPIC_API_KEY".to_owned(), key)].into(),
            flags: vec![("providers.anthropic.base_url".to_owned(), self.url().to_owned())],
            ..ConfigSources::default()
        })
    }

    /// Returns the valid requests, oldest first; at most the last 4,096.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.shared.requests()
    }

    /// Returns the problems of requests; at most the first 1,000.
    pub fn problems(&self) -> Vec<String> {
        self.shared.problems()
    }

    /// Returns the steps of the script that were not requested.
    pub fn unused(&self) -> Vec<String> {
        self.shared.unused()
    }

    /// Sends the answers that are held back, and holds none back from now on.
    pub fn release(&self) {
        self.shared.release();
    }

    /// Closes every connection and waits until all tasks have ended.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for ModelEmulator {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
