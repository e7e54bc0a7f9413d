//! Messengers: where the messages of a bot come from, and where its answers go.

use async_trait::async_trait;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin};
use tokio::sync::Mutex;

/// The longest line that a terminal messenger reads, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A conversation of a bot: one person in one chat. A person has another conversation in each chat, so nothing of a private
/// chat reaches a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BotConversation {
    /// The id of the person, as the messenger knows it.
    pub person: String,
    /// The id of the chat, with its thread if the messenger has threads.
    pub chat: String,
}

/// A message to a bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotMessage {
    /// The conversation.
    pub conversation: BotConversation,
    /// The text.
    pub text: String,
}

/// A source of messages, and a way to answer them.
#[async_trait]
pub trait Messenger: Send + Sync {
    /// Waits for messages, at most for `wait`. `None` after the last one. The messages of one conversation are in order.
    async fn poll(&self, wait: Duration) -> anyhow::Result<Option<Vec<BotMessage>>>;

    /// Sends a text to a conversation.
    async fn send(&self, conversation: &BotConversation, text: &str) -> anyhow::Result<()>;
}

/// The messenger of one person at a terminal: each line of standard input is a message. It ends with the input.
pub struct TerminalMessenger {
    lines: Mutex<Lines<BufReader<Stdin>>>,
}

impl Default for TerminalMessenger {
    fn default() -> Self {
        Self {
            lines: Mutex::new(BufReader::new(tokio::io::stdin()).lines()),
        }
    }
}

impl TerminalMessenger {
    /// Returns the only conversation.
    pub fn conversation() -> BotConversation {
        BotConversation {
            person: "you".to_owned(),
            chat: "terminal".to_owned(),
        }
    }
}

#[async_trait]
impl Messenger for TerminalMessenger {
    async fn poll(&self, wait: Duration) -> anyhow::Result<Option<Vec<BotMessage>>> {
        let mut lines = self.lines.lock().await;
        let Ok(line) = tokio::time::timeout(wait, lines.next_line()).await else {
            return Ok(Some(Vec::new()));
        };
        let Some(line) = line? else { return Ok(None) };
        anyhow::ensure!(
            line.len() <= LINE_BYTES_MAX,
            "a line has more than {LINE_BYTES_MAX} bytes"
        );
        Ok(Some(match line.trim() {
            "" => Vec::new(),
            text => vec![BotMessage {
                conversation: Self::conversation(),
                text: text.to_owned(),
            }],
        }))
    }

    async fn send(&self, _conversation: &BotConversation, text: &str) -> anyhow::Result<()> {
        let mut output = tokio::io::stdout();
        output.write_all(format!("{text}\n").as_bytes()).await?;
        output.flush().await?;
        Ok(())
    }
}
