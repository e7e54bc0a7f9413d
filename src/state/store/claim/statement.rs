//! The statements that claim conversations. A turn counts for the person whose message it answers, over all their accounts,
//! also in the conversation of another, which they joined.

/// The conversations that others joined, which have messages of several people.
macro_rules! joined_ones {
    () => {
        "(SELECT thread_member.conversation FROM thread_member)"
    };
}

/// The sender of the turn message of a conversation that is active or next.
macro_rules! next_sender {
    ($conversation:literal) => {
        concat!(
            "(SELECT json_extract(message.inbound, '$.sender') FROM inbox AS message WHERE message.conversation = ",
            $conversation,
            ".id AND message.lane = 'turn' AND message.done_at IS NULL AND json_valid(message.inbound)
                ORDER BY message.id LIMIT 1)"
        )
    };
}

/// The account for which a waiting conversation asks for a turn. Only where others joined, a message is read for that.
macro_rules! asker {
    () => {
        concat!(
            "CASE WHEN conversation.id IN ",
            joined_ones!(),
            " THEN COALESCE(",
            next_sender!("conversation"),
            ", conversation.sender) ELSE conversation.sender END"
        )
    };
}

/// The accounts of a sender's person.
macro_rules! accounts_of {
    ($sender:expr) => {
        concat!(
            "(SELECT ",
            $sender,
            " UNION SELECT account.sender FROM identity AS asks JOIN identity AS account
                ON account.user_id = asks.user_id WHERE asks.sender = ",
            $sender,
            ")"
        )
    };
}

/// Counts the active conversations that answer a sender's person, over all their accounts. For a sender without a person,
/// counts those that answer the sender.
macro_rules! in_work {
    ($sender:expr) => {
        concat!(
            "((SELECT COUNT(*) FROM conversation AS other WHERE other.owner IS NOT NULL AND other.id NOT IN ",
            joined_ones!(),
            " AND other.sender IN ",
            accounts_of!($sender),
            ") + (SELECT COUNT(*) FROM conversation AS other INDEXED BY conversation_in_work
                WHERE other.owner IS NOT NULL AND other.id IN ",
            joined_ones!(),
            " AND COALESCE(",
            next_sender!("other"),
            ", other.sender) IN ",
            accounts_of!($sender),
            "))"
        )
    };
}

/// True if the sender's person has fewer active conversations than the limit. If the total is below the limit, accounts
/// are not looked up, because that lookup costs more than all other checks of a message.
macro_rules! may_have_more {
    ($sender:expr, $max:literal) => {
        concat!(
            "(",
            $max,
            " > (SELECT COUNT(*) FROM (SELECT 1 FROM conversation AS busy INDEXED BY conversation_in_work
                WHERE busy.owner IS NOT NULL LIMIT ",
            $max,
            ")) OR ",
            $max,
            " > ",
            in_work!($sender),
            ")"
        )
    };
}

/// Claims the conversation that has waited longest, among the people with the fewest active conversations. What waits for room
/// for a run is left out, unless it was stopped.
pub(super) const CLAIM: &str = concat!(
    "UPDATE conversation SET owner = ?1, fence = fence + 1
    WHERE id = (SELECT id FROM conversation WHERE pending > 0 AND owner IS NULL AND question IS NULL
        AND (?2 OR key NOT BETWEEN ?3 AND ?4 AND key NOT BETWEEN ?8 AND ?9 AND key NOT BETWEEN ?10 AND ?11)
        AND (?5 OR ?6 > (SELECT crashes FROM inbox
            WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL ORDER BY id LIMIT 1))
        AND NOT EXISTS (SELECT 1 FROM inbox
            WHERE inbox.conversation = conversation.id AND lane = 'change' AND done_at IS NULL AND effect IS NULL)
        AND (?12 = '[]' OR NOT EXISTS (SELECT 1 FROM json_each(?12) AS without_room
                WHERE conversation.key > json_extract(without_room.value, '$[0]')
                  AND conversation.key < json_extract(without_room.value, '$[1]'))
            OR (SELECT stopped_by FROM inbox
                WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL ORDER BY id LIMIT 1) IS NOT NULL)
        AND ?7 > ",
    in_work!(asker!()),
    " ORDER BY ",
    in_work!(asker!()),
    ", due, id LIMIT 1)
    RETURNING id, fence, key BETWEEN ?3 AND ?4 OR key BETWEEN ?8 AND ?9 OR key BETWEEN ?10 AND ?11, (SELECT crashes FROM inbox
        WHERE inbox.conversation = conversation.id AND lane = 'turn' AND done_at IS NULL ORDER BY id LIMIT 1) >= ?6"
);
/// Claims a conversation whose only waiting message has just arrived.
pub(super) const CLAIM_NEW: &str = concat!(
    "UPDATE conversation SET owner = ?2, fence = fence + 1
    WHERE id = ?1 AND pending = 1 AND owner IS NULL AND question IS NULL AND NOT EXISTS (SELECT 1 FROM inbox
        WHERE inbox.conversation = ?1 AND lane = 'change' AND done_at IS NULL AND effect IS NULL)
        AND ",
    may_have_more!("?4", "?3"),
    " RETURNING fence"
);
/// The query for whether a sender's person may have one more active conversation.
pub(super) const MAY_HAVE_MORE: &str = concat!("SELECT ", may_have_more!("?1", "?2"));
