//! A recording proxy between the gateway and telegram-test-api, a Bot API of another author. It simulates failures of
//! every call, and adds the features that the emulator lacks, as Telegram documents them: updates are returned until an
//! offset confirms them, and a poll waits until there is one (<https://core.telegram.org/bots/api#getupdates>);
//! `setMyCommands`, `setMessageReaction` and `sendDocument`; and the secret token of a webhook
//! (<https://core.telegram.org/bots/api#setwebhook>). It knows neither drafts nor rich messages, and refuses them like a
//! server from before them. All other answers are the emulator's own.

mod missing_methods;

use super::app::BOUND;
use super::third_party_emulator::ThirdPartyEmulator;
use bytes::Bytes;
use drydock::simulation::demo::environment::TELEGRAM_BOT_TOKEN as TOKEN;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use missing_methods::{PUSH_PATH, set_commands};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;

/// The most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// The time at which people write, in seconds since 1970.
const WRITTEN_AT: i64 = 1_795_262_400;

/// The failure that replaces the answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyFailure {
    /// A refusal by a gateway in front of the platform. The call had no effect.
    Unavailable,
    /// A request of the platform to wait this number of seconds.
    TooMany(u64),
    /// An unreadable 200. The call had its effect.
    Malformed,
    /// A connection that ends before the platform receives the call.
    CutBefore,
    /// A connection that ends after the call had its effect.
    CutAfter,
}

/// A message of the bot as the emulator shows it.
#[derive(Clone, Debug)]
pub(crate) struct BotMessage {
    pub(crate) id: i64,
    pub(crate) text: String,
    /// The labels and data of its buttons.
    pub(crate) buttons: Vec<(String, String)>,
}

/// A file the bot sent.
#[derive(Clone, Debug)]
pub(crate) struct SentDocument {
    pub(crate) chat: i64,
    pub(crate) name: String,
    pub(crate) content: String,
}

/// The proxy, with the emulator behind it.
pub(crate) struct TelegramProxy {
    /// The address for `api_base_url`.
    pub(crate) address: String,
    shared: Arc<ProxyShared>,
    accepting: tokio::task::JoinHandle<()>,
    _emulator: ThirdPartyEmulator,
}

struct ProxyShared {
    address: String,
    emulator: String,
    http: reqwest::Client,
    state: Mutex<ProxyState>,
    /// Changes when a call was answered.
    answered: watch::Sender<u64>,
    /// Changes when a person did something.
    done: watch::Sender<u64>,
}

#[derive(Default)]
struct ProxyState {
    /// The methods with their parameters, in order.
    calls: Vec<(String, Value)>,
    failures: BTreeMap<String, VecDeque<ProxyFailure>>,
    /// The updates that were taken from the emulator and not confirmed yet.
    updates: Vec<Value>,
    documents: Vec<SentDocument>,
    webhook: Option<WebhookTarget>,
    /// The gateway's address, and its answers to the pushed updates.
    gateway: String,
    pushes: Vec<u16>,
}

#[derive(Clone)]
struct WebhookTarget {
    path: String,
    secret: String,
}

impl TelegramProxy {
    /// Starts the emulator and the proxy. Returns `None`, with a notice, if the emulator is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let emulator = ThirdPartyEmulator::start("telegram-test-api", "")?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(ProxyShared {
            address: address.clone(),
            emulator: emulator.address.clone(),
            http: drydock::base::http_client::api_client().unwrap(),
            state: Mutex::default(),
            answered: watch::Sender::new(0),
            done: watch::Sender::new(0),
        });
        let serving = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_connection(stream, Arc::clone(&serving)));
            }
        });
        Some(Self {
            address,
            shared,
            accepting,
            _emulator: emulator,
        })
    }

    /// Makes the next call of a method fail. Several failures apply in order.
    pub(crate) fn fail_next(&self, method: &str, failure: ProxyFailure) {
        let mut state = self.shared.state.lock().unwrap();
        state
            .failures
            .entry(method.to_owned())
            .or_default()
            .push_back(failure);
    }

    /// Waits until every failure has occurred.
    pub(crate) async fn wait_for_all_failures(&self, chat: i64) {
        let is_none_left = |_: &[BotMessage]| {
            let state = self.shared.state.lock().unwrap();
            state.failures.values().all(VecDeque::is_empty).then_some(())
        };
        self.wait_for("every failure", chat, is_none_left).await;
    }

    /// Sets the webhook address of the gateway.
    pub(crate) fn push_to(&self, gateway: &str) {
        gateway.clone_into(&mut self.shared.state.lock().unwrap().gateway);
    }

    /// Returns the answers of the gateway to pushed updates.
    pub(crate) fn pushes(&self) -> Vec<u16> {
        self.shared.state.lock().unwrap().pushes.clone()
    }

    /// Returns the parameters of every call of a method, in order.
    pub(crate) fn calls_of(&self, method: &str) -> Vec<Value> {
        let state = self.shared.state.lock().unwrap();
        let calls = state.calls.iter().filter(|(called, _)| called == method);
        calls.map(|(_, parameters)| parameters.clone()).collect()
    }

    /// Returns every method that was called.
    pub(crate) fn methods(&self) -> Vec<String> {
        let state = self.shared.state.lock().unwrap();
        let methods: BTreeSet<&String> = state.calls.iter().map(|(method, _)| method).collect();
        methods.into_iter().cloned().collect()
    }

    pub(crate) fn documents(&self) -> Vec<SentDocument> {
        self.shared.state.lock().unwrap().documents.clone()
    }

    /// Sends a message of a person to the bot in a direct chat.
    pub(crate) async fn say(&self, user: i64, text: &str) {
        let mut message = message_of(user);
        message["text"] = json!(text);
        message["botToken"] = json!(TOKEN);
        self.act("sendMessage", message).await;
    }

    /// Presses a button as a person. The emulator's own client omits the id of the message, but Telegram does not.
    pub(crate) async fn press(&self, user: i64, shown: &BotMessage, label: &str) {
        let button = shown.buttons.iter().find(|(text, _)| text == label);
        let (_, data) = button.unwrap_or_else(|| panic!("no button {label} in {shown:?}"));
        let mut message = message_of(user);
        message["message_id"] = json!(shown.id);
        let from = message["from"].clone();
        let press = json!({"botToken": TOKEN, "from": from, "message": message, "data": data});
        self.act("sendCallback", press).await;
    }

    async fn act(&self, what: &str, body: Value) {
        self.shared.ask_emulator(what, &body).await.unwrap();
        self.shared.done.send_modify(|count| *count += 1);
    }

    /// Returns the bot's messages in a chat, edits included.
    pub(crate) async fn messages(&self, chat: i64) -> Vec<BotMessage> {
        let asked = json!({"token": TOKEN});
        let history = self
            .shared
            .ask_emulator("getUpdatesHistory", &asked)
            .await
            .unwrap();
        let history = history["result"].as_array().cloned().unwrap_or_default();
        let bots = history.iter().filter(|entry| entry["message"]["chat_id"] == chat);
        bots.map(bot_message).collect()
    }

    /// Counts the messages of the bot in a chat that contain a text.
    pub(crate) async fn count(&self, chat: i64, text: &str) -> usize {
        let messages = self.messages(chat).await;
        messages.iter().filter(|shown| shown.text.contains(text)).count()
    }

    /// Waits until `look` finds something. It is called again after each call of the gateway.
    pub(crate) async fn wait_for<T>(
        &self,
        what: &str,
        chat: i64,
        look: impl Fn(&[BotMessage]) -> Option<T>,
    ) -> T {
        let mut answered = self.shared.answered.subscribe();
        let deadline = Instant::now() + BOUND;
        loop {
            answered.borrow_and_update();
            let messages = self.messages(chat).await;
            if let Some(found) = look(&messages) {
                return found;
            }
            let changed = tokio::time::timeout_at(deadline, answered.changed()).await;
            assert!(
                changed.is_ok(),
                "Telegram never showed {what}; it shows {messages:#?}"
            );
        }
    }

    /// Waits for a message with a text.
    pub(crate) async fn wait_for_message(&self, chat: i64, text: &str) -> BotMessage {
        self.wait_for(text, chat, |messages| {
            messages.iter().find(|shown| shown.text.contains(text)).cloned()
        })
        .await
    }
}

impl Drop for TelegramProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Reads a message of the bot from the emulator's record.
fn bot_message(entry: &Value) -> BotMessage {
    let rows = entry["message"]["reply_markup"]["inline_keyboard"].as_array();
    let buttons = rows.into_iter().flatten().filter_map(Value::as_array).flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    BotMessage {
        id: entry["messageId"].as_i64().unwrap(),
        text: text(&entry["message"]["text"]),
        buttons: buttons
            .map(|button| (text(&button["text"]), text(&button["callback_data"])))
            .collect(),
    }
}

fn message_of(user: i64) -> Value {
    json!({"date": WRITTEN_AT, "chat": {"id": user, "type": "private", "first_name": "Test"},
        "from": {"id": user, "is_bot": false, "first_name": "Test"}})
}

type ProxyResponse = Response<Full<Bytes>>;

async fn serve_connection(stream: TcpStream, shared: Arc<ProxyShared>) {
    let answer = service_fn(move |request| handle(request, Arc::clone(&shared)));
    // A connection that ends in an error was cut on purpose, or its gateway stopped.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// Answers a call, or ends its connection.
async fn handle(request: Request<Incoming>, shared: Arc<ProxyShared>) -> Result<ProxyResponse, Error> {
    let (head, body) = request.into_parts();
    let content_type = head.headers.get(http::header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_owned();
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await;
    let body = body.map_err(Error::other)?.to_bytes();
    if head.uri.path() == PUSH_PATH {
        shared.forward_push(body).await;
        // The emulator ends itself on any other request.
        return Ok(json_response(200, "{}".to_owned()));
    }
    let method = head
        .uri
        .path()
        .strip_prefix(&format!("/bot{TOKEN}/"))
        .map(str::to_owned);
    let Some(method) = method else {
        return Ok(error_response(401, "Unauthorized"));
    };
    let call = ProxyCall {
        parameters: serde_json::from_slice(&body).unwrap_or_default(),
        method,
        content_type,
        body,
    };
    let answer = shared.answer_or_fail(&call).await;
    shared.answered.send_modify(|count| *count += 1);
    answer
}

struct ProxyCall {
    method: String,
    parameters: Value,
    content_type: String,
    body: Bytes,
}

impl ProxyShared {
    /// Returns the answer of the emulator, as JSON.
    async fn ask_emulator(&self, path: &str, body: &Value) -> Result<Value, Error> {
        let request = self.http.post(format!("{}/{path}", self.emulator)).json(body);
        let answer = request.send().await.map_err(Error::other)?;
        answer.json().await.map_err(Error::other)
    }

    async fn answer_or_fail(&self, call: &ProxyCall) -> Result<ProxyResponse, Error> {
        let failure = {
            let mut state = self.state.lock().unwrap();
            state.calls.push((call.method.clone(), call.parameters.clone()));
            let failures = state.failures.get_mut(&call.method);
            failures.and_then(VecDeque::pop_front)
        };
        let cut = Err(Error::from(ErrorKind::ConnectionReset));
        match failure {
            None => self.answer(call).await,
            Some(ProxyFailure::Unavailable) => Ok(json_response(502, "<html>Bad Gateway</html>".to_owned())),
            Some(ProxyFailure::TooMany(seconds)) => {
                let why = format!("Too Many Requests: retry after {seconds}");
                let body = json!({"ok": false, "error_code": 429, "description": why,
                    "parameters": {"retry_after": seconds}});
                Ok(json_response(429, body.to_string()))
            }
            Some(ProxyFailure::Malformed) => {
                self.answer(call).await?;
                Ok(json_response(200, r#"{"ok":true,"resul"#.to_owned()))
            }
            Some(ProxyFailure::CutBefore) => cut,
            Some(ProxyFailure::CutAfter) => {
                self.answer(call).await?;
                cut
            }
        }
    }

    async fn answer(&self, call: &ProxyCall) -> Result<ProxyResponse, Error> {
        let supplied = match call.method.as_str() {
            "getUpdates" => self.get_updates(&call.parameters).await?,
            "setMyCommands" => set_commands(&call.parameters),
            "setMessageReaction" => self.set_reaction(&call.parameters).await?,
            "sendDocument" => self.send_document(call),
            "setWebhook" => self.set_webhook(&call.parameters).await?,
            // The emulator answers 500, after which nobody knows whether a call took effect.
            "sendMessageDraft" | "sendRichMessage" | "sendRichMessageDraft" => {
                return Ok(error_response(404, "Not Found: method not found"));
            }
            // A server from before rich messages does not read the field.
            "editMessageText" if call.parameters.get("rich_message").is_some() => {
                Err("Bad Request: message text is empty".to_owned())
            }
            _ => {
                let request = self
                    .http
                    .post(format!("{}/bot{TOKEN}/{}", self.emulator, call.method));
                let request = request.json(&call.parameters);
                let answer = request.send().await.map_err(Error::other)?;
                let status = answer.status().as_u16();
                return Ok(json_response(status, answer.text().await.map_err(Error::other)?));
            }
        };
        Ok(match supplied {
            Ok(result) => json_response(200, json!({"ok": true, "result": result}).to_string()),
            Err(why) => error_response(400, &why),
        })
    }
}

fn error_response(code: u16, why: &str) -> ProxyResponse {
    let body = json!({"ok": false, "error_code": code, "description": why});
    json_response(code, body.to_string())
}

fn json_response(status: u16, body: String) -> ProxyResponse {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}
