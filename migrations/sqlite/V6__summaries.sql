-- The text that stands for the turns of a conversation that are left out of its context. `turn` is the newest of them.
CREATE TABLE summary (
    conversation INTEGER NOT NULL UNIQUE REFERENCES conversation (id),
    turn INTEGER NOT NULL REFERENCES turn (id),
    text TEXT NOT NULL
);
CREATE INDEX summary_turn ON summary (turn);
