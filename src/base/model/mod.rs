//! The types that all other modules use. No I/O, no clock, no randomness, no async.

mod attachment;
mod base64_bytes;
mod call_arguments;
mod budget;
mod budget_scopes;
mod change;
mod change_name;
mod cut;
mod edit_distance;
mod effect;
mod environment_files;
mod name_folding;
mod history;
mod ids;
mod inbound;
mod invisible;
mod limits;
mod money;
mod numbers;
mod outbound;
mod overview;
mod path;
mod person_message;
mod plain_output;
mod platform;
mod price;
mod pulled_change;
mod question;
mod reply;
mod response_url;
mod role;
mod run;
mod run_question;
mod run_reply;
mod schedule;
pub mod seconds;
mod secret;
mod step_text;
mod stored_output;
mod task_list;
mod verdict;

pub use attachment::{
    ATTACHED_BYTES_MAX, ATTACHMENT_BYTES_MAX, ATTACHMENTS_MAX, AttachedFile, Attachment, MediaType,
    MediaTypes,
};
pub use budget::{Attendance, BudgetBound, BudgetRefusal, BudgetScope, BudgetWarning, Budgets, Spending};
pub use budget_scopes::BudgetScopes;
pub use call_arguments::CallArguments;
pub use change::{Change, Check, CheckState, FileChange, FileMode, FileVersion, RequiredGrant, Stats};
pub use change_name::{ChangeName, InvalidChangeName};
pub use cut::{cut_after, cut_to};
pub use edit_distance::{edit_distance, edit_distance_within};
pub use effect::Effect;
pub use environment_files::{MAIN_FILE, SPEC_FILE};
pub use history::{
    Assistant, ContentBlock, ContextState, History, HistoryError, RawBlocks, Step, StopReason, ToolCall,
    ToolResult, TrimBoundary, Turn, Usage, json_bytes, result_bytes, result_bytes_with, with_absent_files,
};
pub use ids::{ChangeNumber, ConversationId, InboxId, OutputNumber, RunId, ScheduleId, TurnId, UserId};
pub use inbound::{
    Account, ChatFile, ChatPlace, ConversationKey, Inbound, InboundKind, Installation, MessageRef, Sender,
};
pub use invisible::{is_invisible, one_line, quoted, short_line};
pub use limits::{ContextStrategyName, Limits};
pub use money::Money;
pub use name_folding::{compose_name, fold_name};
pub use numbers::{by_number, group_thousands, is_hex, pluralize, totals};
pub use outbound::{ACCESS_REVOKED, Action, DiffTab, Op, Receipt, WorkStatus};
pub use overview::{ChangeOverview, ObjectOverview};
pub use path::{PathError, RepoPath};
pub use person_message::{
    MESSAGES_PER_HOUR_MAX, MESSAGES_WAITING_MAX, MessageConsent, MessageOutcome, NOT_PERMITTED,
    PersonMessage, SEND_USER_MESSAGE,
};
pub use plain_output::plain_output;
pub use platform::{ChatProperties, Platform, ResponseUrlUse};
pub use price::{LongPromptPrices, ModelPrice, TokenPrice, TokenPrices};
pub use pulled_change::{LineEdit, PULLED_BYTES_MAX, PulledBytes, PulledChange, PulledFile, PulledSide};
pub use question::{ASK_USER, AskedQuestion, QuestionAnswer};
pub use reply::{Button, ButtonStyle, FoldState, Reply, ReplyPart};
pub use response_url::ResponseUrl;
pub use role::Role;
pub use run::{
    AgentBounds, PipelineWork, RunConflictRule, RunStatus, STEP_OUTPUT_BYTES_MAX, StepEnd, StepSpending,
    StepStatus, step_of_operation,
};
pub use run_question::{AskedPeople, RunAnswer, RunQuestion, choice_named};
pub use run_reply::{ReplyMessages, UndeliveredMessage, reply_name, reply_of_operation};
pub use schedule::{
    FireOutcome, MissedRule, OverlapRule, PipelineSchedule, ScheduleDefinition, ScheduledPipeline,
    ScheduledWork,
};
pub use secret::Secret;
pub use step_text::truncated_result;
pub use stored_output::{KeptText, NoOutputReference, StoredOutput};
pub use task_list::{ListedTask, TaskList, TaskState};
pub use verdict::{Verdict, VerdictSource};
