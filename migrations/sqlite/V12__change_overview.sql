-- The effects of a change for the first screen of a phone, as JSON.
ALTER TABLE change ADD COLUMN overview TEXT NOT NULL DEFAULT '{}';
-- The operation that takes the buttons off the message of this revision, as JSON; NULL if it has none any more.
ALTER TABLE change ADD COLUMN result TEXT;
