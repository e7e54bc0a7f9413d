-- Times are milliseconds since 1970 (UTC). `sender`, `account`, `key`, `lane` and every structured value are JSON text.

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
);

CREATE TABLE identity (
    sender TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL
);
CREATE INDEX identity_user ON identity (user_id);

CREATE TABLE user_grant (
    id INTEGER PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id),
    role TEXT NOT NULL,
    repositories TEXT NOT NULL,
    environments TEXT NOT NULL
);
CREATE INDEX user_grant_user ON user_grant (user_id);

-- Only a keyed hash of the token is kept. `burned_at` is when it became worthless without being used: somebody else
-- has seen it, or it has expired.
CREATE TABLE invite (
    hash BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    repositories TEXT NOT NULL,
    environments TEXT NOT NULL,
    bound_to TEXT,
    issued_by TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    used_by TEXT,
    burned_at INTEGER
);

-- At most `strangers_remembered_max` rows.
CREATE TABLE stranger (
    sender TEXT PRIMARY KEY,
    noticed_at INTEGER NOT NULL
);
CREATE INDEX stranger_noticed ON stranger (noticed_at);

-- `due` is the oldest message that waits: who has waited longest is told by it, and by no clock.
-- `withheld` says why what is edited is not prepared, where the person may not have it.
-- `key` begins with the person and the chat, so that its own index finds what is theirs. `session` is a keyed
-- hash of it, and so unique. Neither needs another index, which every message would write.
CREATE TABLE conversation (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    sender TEXT NOT NULL,
    channel TEXT NOT NULL,
    session TEXT NOT NULL,
    repository TEXT,
    base TEXT,
    edits TEXT NOT NULL,
    change_number INTEGER,
    withheld TEXT,
    cleared_turn INTEGER NOT NULL,
    spoken_at INTEGER,
    owner TEXT,
    fence INTEGER NOT NULL,
    pending INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX conversation_due ON conversation (due, id) WHERE pending > 0;
CREATE INDEX conversation_in_work ON conversation (sender) WHERE owner IS NOT NULL;

-- `inbound` is without secrets, and empty once a message of the turn lane is answered.
-- `effect` is what a command did, recorded in the transaction that did it. `stopped_by` is the command that asked
-- for the end of a turn. `crashes` counts the ends of the process in which the row was in work, `own_crashes` those
-- that only it can have caused.
-- `conversation` is no reference: removing a conversation would look through all messages, since no index
-- holds them all. What removes one asks both indexes instead.
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    lane TEXT NOT NULL,
    inbound TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    done_at INTEGER,
    effect TEXT,
    stopped_by INTEGER,
    crashes INTEGER NOT NULL DEFAULT 0,
    own_crashes INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX inbox_unfinished ON inbox (conversation, lane, id) WHERE done_at IS NULL;
CREATE INDEX inbox_finished ON inbox (conversation) WHERE done_at IS NOT NULL;

-- Whether a process works on the messages; one that stops in order says that it does not any more. `starts` counts
-- how often the database was opened. `room` is empty, but while it is tried out whether there is room for a message.
CREATE TABLE process (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    works INTEGER NOT NULL,
    starts INTEGER NOT NULL DEFAULT 0,
    room BLOB
);
INSERT INTO process (id, works) VALUES (1, 0);

-- Every name a message may arrive under again. One tree and no index: it is written with every message,
-- and looked through once an hour, a little at a time.
CREATE TABLE delivery (
    name TEXT PRIMARY KEY,
    at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE turn (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    inbox INTEGER NOT NULL REFERENCES inbox (id),
    user_text TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    finished_at INTEGER,
    verdict TEXT,
    source TEXT,
    summary TEXT,
    edits_before TEXT NOT NULL,
    edits_after TEXT NOT NULL,
    undone_at INTEGER
);
CREATE INDEX turn_conversation ON turn (conversation, id);
CREATE INDEX turn_inbox ON turn (inbox);

-- Model answers with the results of their calls, byte for byte as they were recorded.
CREATE TABLE step (
    id INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL REFERENCES turn (id),
    step TEXT NOT NULL,
    is_final INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX step_turn ON step (turn, id);

-- `turn` is no reference: what a call cost is kept longer than the turn that made it.
CREATE TABLE usage (
    id INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL,
    user_id INTEGER REFERENCES users (id),
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX usage_user ON usage (user_id, at);
CREATE INDEX usage_turn ON usage (turn);

-- File contents and patches by SHA-256.
CREATE TABLE blob (
    hash BLOB PRIMARY KEY,
    content BLOB NOT NULL
);

CREATE TABLE change (
    id INTEGER PRIMARY KEY,
    number INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    repository TEXT NOT NULL,
    base TEXT NOT NULL,
    -- With secrets masked.
    patch BLOB NOT NULL REFERENCES blob (hash),
    -- The SHA-256 of the patch as it applies.
    content BLOB NOT NULL,
    stats TEXT NOT NULL,
    checks TEXT NOT NULL,
    effects TEXT NOT NULL,
    needs TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (number, revision)
);
CREATE INDEX change_conversation ON change (conversation);
CREATE INDEX change_patch ON change (patch);

CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    op TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    lane TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    message TEXT,
    why TEXT,
    created_at INTEGER NOT NULL,
    tried_at INTEGER,
    done_at INTEGER,
    told_by INTEGER
);
CREATE INDEX outbox_open ON outbox (channel, lane, id) WHERE done_at IS NULL;
CREATE INDEX outbox_done ON outbox (done_at) WHERE done_at IS NOT NULL;

-- Where Slack takes answers to a command that was typed where the bot is not: a credential, kept until the operations
-- whose ids begin with `answers` are out. Not used after half an hour, and deleted within five minutes then.
CREATE TABLE response_url (
    answers TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Button tokens; only their SHA-256 is kept. `used_by` is the message that pressed the button.
CREATE TABLE action (
    token_hash BLOB PRIMARY KEY,
    verb TEXT NOT NULL,
    argument TEXT NOT NULL,
    sender TEXT NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    expires_at INTEGER NOT NULL,
    used_at INTEGER,
    used_by INTEGER
) WITHOUT ROWID;
CREATE INDEX action_conversation ON action (conversation);

-- hash(n) = SHA-256(hash(n - 1) || line(n)); the head is kept apart, so that a cut tail shows.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    line TEXT NOT NULL,
    hash BLOB NOT NULL
);

CREATE TABLE audit_head (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    rows INTEGER NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO audit_head (id, rows, hash) VALUES (1, 0, zeroblob(32));

-- Where the log begins since its first rows were cut: how many were, and the hash of the last of them.
CREATE TABLE audit_start (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    rows INTEGER NOT NULL,
    hash BLOB NOT NULL
);
INSERT INTO audit_start (id, rows, hash) VALUES (1, 0, zeroblob(32));
