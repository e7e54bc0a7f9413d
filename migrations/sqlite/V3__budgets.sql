-- `money` is the cost of the call in billionths of a dollar, at the prices of that time; NULL if they were not known.
ALTER TABLE usage ADD COLUMN money INTEGER;
CREATE INDEX usage_at ON usage (at);

-- The most that a model call may cost, from before it is made until its cost is recorded. A row of a call that the
-- process did not survive stays: nobody knows what the call did cost, so it counts in full.
CREATE TABLE reservation (
    id INTEGER PRIMARY KEY,
    inbox INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    user_id INTEGER,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX reservation_at ON reservation (at);
CREATE INDEX reservation_conversation ON reservation (conversation);

-- A request to administrators to allow more. `subject` is the conversation or the person, and 0 for the whole server.
-- `day` is the number of the day since 1970 in UTC, or NULL for a budget without a day.
CREATE TABLE budget_request (
    id TEXT PRIMARY KEY,
    scope TEXT NOT NULL,
    subject INTEGER NOT NULL,
    day INTEGER,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,
    allowed_at INTEGER
) WITHOUT ROWID;
CREATE INDEX budget_request_asked ON budget_request (asked_at);

-- What administrators allowed in addition to a budget.
CREATE TABLE allowance (
    id INTEGER PRIMARY KEY,
    scope TEXT NOT NULL,
    subject INTEGER NOT NULL,
    day INTEGER,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    allowed_by TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX allowance_subject ON allowance (scope, subject);
