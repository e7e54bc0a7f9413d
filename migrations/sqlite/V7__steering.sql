-- `taken_by` is the message whose turn took this one while it ran; both are done in the transaction that ends the turn.
-- `retries` is the turn whose message runs again.
ALTER TABLE inbox ADD COLUMN taken_by INTEGER;
ALTER TABLE inbox ADD COLUMN retries INTEGER;
-- `said` holds the words of the messages that the turn took, without the notes around them. `continues` is the turn
-- whose steps come before its own: both are one turn of the model.
ALTER TABLE turn ADD COLUMN said TEXT NOT NULL DEFAULT '';
ALTER TABLE turn ADD COLUMN continues INTEGER;
