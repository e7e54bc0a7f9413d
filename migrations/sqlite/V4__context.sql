-- The turns up to which the context of the model was trimmed: results up to `trimmed_turn` are placeholders, and turns
-- up to `dropped_turn` are left out. Both only rise. `bytes_per_1000_tokens` is what the provider last counted.
ALTER TABLE conversation ADD COLUMN trimmed_turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN dropped_turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN bytes_per_1000_tokens INTEGER;
