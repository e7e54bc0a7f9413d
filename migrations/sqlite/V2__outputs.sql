-- The whole texts of tool results that were shortened, without secrets: number 7 is `out-7` of its conversation.
CREATE TABLE output (
    id INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversation (id),
    number INTEGER NOT NULL,
    turn INTEGER NOT NULL REFERENCES turn (id),
    text TEXT NOT NULL,
    UNIQUE (conversation, number)
);
CREATE INDEX output_turn ON output (turn);

-- The newest number that a conversation used. Numbers are not used again.
ALTER TABLE conversation ADD COLUMN last_output INTEGER NOT NULL DEFAULT 0;
