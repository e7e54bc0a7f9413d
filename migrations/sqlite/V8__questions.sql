-- A question of the model to the person of its turn. `post` is the operation that shows it, and `address` is where.
-- `ran_ms` is how long the turn had run when it asked; the time until the answer does not count. The result of the call
-- `call` in the step is a placeholder until the question is closed, and the answer from then on. Only `turn` is a
-- reference: without more indexes, each removal of a step or a conversation would look through all questions.
CREATE TABLE question (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    turn INTEGER NOT NULL REFERENCES turn (id),
    step INTEGER NOT NULL,
    call TEXT NOT NULL,
    content TEXT NOT NULL,
    post TEXT NOT NULL UNIQUE,
    address TEXT NOT NULL,
    ran_ms INTEGER NOT NULL,
    asked_at INTEGER NOT NULL,
    deadline INTEGER NOT NULL,
    answer TEXT,
    closed_at INTEGER
);
CREATE INDEX question_turn ON question (turn);
CREATE INDEX question_open ON question (deadline) WHERE closed_at IS NULL;

-- The open question. While there is one, nobody claims the conversation.
ALTER TABLE conversation ADD COLUMN question INTEGER;
