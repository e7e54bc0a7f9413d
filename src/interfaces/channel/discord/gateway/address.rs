//! The addresses of the gateway. A connection leads only to Discord, or to the host of the configured API.

use super::position::GatewaySession;
use crate::interfaces::channel::SendError;
use crate::interfaces::channel::discord::api::{ApiError, DiscordApi};
use crate::interfaces::channel::web_socket::{ChannelSocket, open_socket, socket_config, socket_failed};
use reqwest::Url;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;
use twilight_http::request::{Method, RequestBuilder};

/// Time limit of opening a connection.
const OPEN_TIME_MAX: Duration = Duration::from_secs(20);
/// The maximum number of bytes of a frame. An interaction holds the whole message with its button.
const FRAME_BYTES_MAX: usize = 4 << 20;

/// Opens a connection: for a session at its own address, else at the one that Discord names.
pub(super) async fn open(
    api: &DiscordApi,
    http: &reqwest::Client,
    session: Option<&GatewaySession>,
) -> Result<ChannelSocket, SendError> {
    let address = match session {
        Some(session) => session.url.clone(),
        None => new_address(api).await?,
    };
    let refused = || SendError::Refused("the address of the gateway does not belong to discord".to_owned());
    let mut url = Url::parse(&address).map_err(|_| refused())?;
    if !is_ours(api, &url) {
        return Err(refused());
    }
    url.set_query(Some("v=10&encoding=json"));
    let opened = open_socket(http, url, socket_config(FRAME_BYTES_MAX), "discord");
    let opened = timeout(OPEN_TIME_MAX, opened).await;
    opened.unwrap_or_else(|_| Err(socket_failed("discord did not open the gateway in time")))
}

async fn new_address(api: &DiscordApi) -> Result<String, SendError> {
    let request = RequestBuilder::raw(Method::Get, "gateway/bot".to_owned()).build();
    let request = request.map_err(|_| SendError::Refused("the request cannot be made".to_owned()))?;
    let (answer, _) = api.send(request).await.map_err(ApiError::into_repeatable_error)?;
    let limit = &answer["session_start_limit"];
    if limit["remaining"].as_u64() == Some(0) {
        let wait = limit["reset_after"].as_u64().unwrap_or_default();
        return Err(SendError::Limited {
            why: "discord allows no more new sessions".to_owned(),
            retry_after: Some(Duration::from_millis(wait)),
        });
    }
    match &answer["url"] {
        Value::String(url) => Ok(url.clone()),
        _ => Err(SendError::Refused("discord named no gateway".to_owned())),
    }
}

fn is_ours(api: &DiscordApi, url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    if url.scheme() == "wss" && url.port().is_none() && host.ends_with(".discord.gg") {
        return true;
    }
    Url::parse(api.base()).is_ok_and(|base| {
        let is_as_safe = matches!((base.scheme(), url.scheme()), (_, "wss") | ("http", "ws"));
        is_as_safe
            && base.host_str() == url.host_str()
            && base.port_or_known_default() == url.port_or_known_default()
    })
}
