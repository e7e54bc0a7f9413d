-- The person for whom the turn ran. In turns of an earlier version it is NULL and means the person of the conversation.
ALTER TABLE turn ADD COLUMN person INTEGER;

-- 1 if the history may hold files of more than one repository. It is not known for conversations of earlier versions.
ALTER TABLE conversation ADD COLUMN switched INTEGER NOT NULL DEFAULT 0;
UPDATE conversation SET switched = 1 WHERE spoken_at IS NOT NULL;

-- The content of messages that ended with a question to their sender, without secrets. `inbox` is the message. The
-- answer stores the content as a new message and removes it here.
CREATE TABLE held_message (
    inbox INTEGER PRIMARY KEY,
    inbound TEXT NOT NULL
);

-- The conversation with which a thread began. `place` is the account, the chat and the thread.
CREATE TABLE thread (
    place TEXT PRIMARY KEY,
    conversation INTEGER NOT NULL
) WITHOUT ROWID;

-- The people who joined the conversation with which a thread began, by the accounts that they write with.
CREATE TABLE thread_member (
    place TEXT NOT NULL,
    sender TEXT NOT NULL,
    conversation INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    PRIMARY KEY (place, sender)
) WITHOUT ROWID;

-- The last request of an unknown sender for access: its time, and the press with its place, as JSON.
ALTER TABLE stranger ADD COLUMN requested_at INTEGER;
ALTER TABLE stranger ADD COLUMN request TEXT;

-- The conversations with an open change, for those who edit the same files.
CREATE INDEX conversation_change ON conversation (change_number) WHERE change_number IS NOT NULL;
