//! The nouns every other module speaks in. No I/O, no clock, no randomness, no async.

mod base64_bytes;
mod change;
mod counted;
mod edits;
mod effect;
mod folded;
mod history;
mod ids;
mod inbound;
mod invisible;
mod limits;
mod outbound;
mod path;
mod reply;
mod response_url;
mod role;
mod secret;
mod verdict;

pub use change::{Change, Check, CheckState, FileChange, FileVersion, Mode, Need, Stats};
pub use counted::counted;
pub use edits::edits;
pub use effect::Effect;
pub use folded::{composed, folded};
pub use history::{
    Assistant, Block, History, HistoryError, RawBlocks, Step, StopReason, ToolCall, ToolResult, Turn, Usage,
    json_bytes, result_bytes,
};
pub use ids::{ChangeNumber, ConversationId, InboxId, TurnId, UserId};
pub use inbound::{
    Account, ConversationKey, Inbound, Installation, Kind, MessageRef, Place, Platform, Sender,
};
pub use invisible::{is_invisible, one_line, quoted, short_line};
pub use limits::Limits;
pub use outbound::{Action, Op, Receipt};
pub use path::{PathError, RepoPath};
pub use reply::{Button, ButtonStyle, Part, Reply};
pub use response_url::ResponseUrl;
pub use role::Role;
pub use secret::Secret;
pub use verdict::{Source, Verdict};
