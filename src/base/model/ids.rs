//! Row ids as separate types, so that the compiler finds a turn that is used as a conversation.

macro_rules! id {
    ($(#[$doc:meta] $name:ident),* $(,)?) => {$(
        #[$doc]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

id! {
    /// A user or service with access.
    UserId,
    /// The history of one user in one place.
    ConversationId,
    /// The work on one inbound message, up to its reply.
    TurnId,
    /// One accepted inbound message.
    InboxId,
    /// The number that users see: 42 in `CHG-42`.
    ChangeNumber,
    /// The number of a stored output in its conversation: 7 in `out-7`.
    OutputNumber,
    /// One schedule.
    ScheduleId,
    /// One run of a pipeline.
    RunId,
}

impl InboxId {
    /// Returns the prefix of the ids of operations that answer this message: `inbox-7`.
    pub fn op_id_prefix(self) -> String {
        format!("inbox-{self}")
    }
}
