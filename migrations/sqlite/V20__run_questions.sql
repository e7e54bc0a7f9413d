-- The questions of runs, one for each step that asks. `content` is the question with those who may answer it, `post` is the
-- operation that shows it, and `address` is where. A question is closed in the transaction that ends its step. Its buttons are
-- no rows of `action`: a run has no conversation, and a press by somebody who is not asked must not use a button up.
CREATE TABLE run_question (
    run INTEGER NOT NULL REFERENCES run (id),
    step INTEGER NOT NULL,
    content TEXT NOT NULL,
    post TEXT NOT NULL,
    address TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    answer TEXT,
    closed_at INTEGER,
    PRIMARY KEY (run, step)
);
CREATE INDEX run_question_open ON run_question (deadline) WHERE closed_at IS NULL;

-- The buttons of these questions: the SHA-256 of each token, and the place of its choice.
CREATE TABLE run_question_button (
    token_hash BLOB PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES run (id),
    step INTEGER NOT NULL,
    choice INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX run_question_button_run ON run_question_button (run);
