-- 1 for a one-to-one chat with the bot. A conversation of an earlier version is marked with its next message.
ALTER TABLE conversation ADD COLUMN direct INTEGER NOT NULL DEFAULT 0;

-- What people decided about the messages of others: `state` is asked, accepted or blocked. `asked_at` is when the
-- recipient was asked, if that was done.
CREATE TABLE message_consent (
    recipient INTEGER NOT NULL REFERENCES users (id),
    sender INTEGER NOT NULL REFERENCES users (id),
    state TEXT NOT NULL,
    asked_at INTEGER,
    PRIMARY KEY (recipient, sender)
) WITHOUT ROWID;
CREATE INDEX message_consent_sender ON message_consent (sender, asked_at);

-- Messages from one person to another, without secrets. `sent_by` is the message of the sender whose turn sent it, and
-- `taken_by` that of the recipient whose turn reads it.
CREATE TABLE person_message (
    id INTEGER PRIMARY KEY,
    sender INTEGER NOT NULL REFERENCES users (id),
    recipient INTEGER NOT NULL REFERENCES users (id),
    sent_by INTEGER NOT NULL,
    text TEXT NOT NULL,
    at INTEGER NOT NULL,
    taken_by INTEGER
);
CREATE INDEX person_message_recipient ON person_message (recipient, taken_by);
CREATE INDEX person_message_sender ON person_message (sender, at);
CREATE INDEX person_message_sent ON person_message (sent_by);
CREATE INDEX person_message_taken ON person_message (taken_by) WHERE taken_by IS NOT NULL;
