//! Reading of files that people sent. The address of a file comes from `files.info`, also for a file of a shared channel,
//! whose event does not have it.

use super::client::SlackClient;
use super::connector::{is_slack_host, other_host_error, read_up_to, sent};
use crate::base::model::ChatFile;
use crate::interfaces::channel::SendError;
use bytes::Bytes;
use reqwest::Url;
use serde_json::Value;

impl SlackClient {
    /// Reads a file up to `bytes_max` bytes; `None` if it is larger. See
    /// <https://docs.slack.dev/reference/methods/files.info>.
    pub(super) async fn read_file(
        &self,
        file: &ChatFile,
        bytes_max: usize,
    ) -> Result<Option<Bytes>, SendError> {
        let id = file.reference.as_deref().unwrap_or_default();
        let info = self.call_form("files.info", &[("file", id)]).await?;
        let info = info.get("file").unwrap_or(&Value::Null);
        if info.get("size").and_then(Value::as_u64) > Some(bytes_max as u64) {
            return Ok(None);
        }
        let connector = self.connector();
        let is_of_slack = |url: &Url| connector.is_slack(url, is_slack_host);
        let url = info.get("url_private_download").and_then(Value::as_str);
        let Some(url) = url.and_then(|url| Url::parse(url).ok()).filter(is_of_slack) else {
            return Err(SendError::Refused("slack does not have its content".to_owned()));
        };
        let read = async {
            let mut response = sent(connector.file(url)).await?;
            read_up_to(&mut response, bytes_max).await
        };
        // Slack leads a token without the scope to its login page, which is no success.
        read.await.map_err(other_host_error)
    }
}
