//! Row ids as types, so that a turn is never passed where a conversation is meant.

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
    /// A person or service that was admitted.
    UserId,
    /// One person's history in one place.
    ConversationId,
    /// The work on one inbound message, up to its reply.
    TurnId,
    /// One accepted inbound message.
    InboxId,
    /// The number people see: 42 in `CHG-42`.
    ChangeNumber,
}

impl InboxId {
    /// The beginning of the ids of operations that answer it: `inbox-7`.
    pub fn op_id_prefix(self) -> String {
        format!("inbox-{self}")
    }
}
