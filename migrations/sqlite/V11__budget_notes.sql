-- The budgets about which the model was told, with the step of the call, that they are nearly used: a set of bits. The note
-- belongs to the period in which its call was reserved.
ALTER TABLE usage ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN told_at INTEGER;
-- The budgets about which the model is told if the call ends with such a step.
ALTER TABLE reservation ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
