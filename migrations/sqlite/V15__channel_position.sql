-- The position of a channel among the messages of its platform, in a form of the channel. Nothing else depends on it: a
-- message after it that comes again is recognised by its name in `delivery`.
CREATE TABLE channel_position (
    channel TEXT PRIMARY KEY,
    position TEXT NOT NULL
) WITHOUT ROWID;

-- The person who reads what is sent there, as JSON; NULL if it is not known. What is for another person never goes there.
ALTER TABLE response_url ADD COLUMN person TEXT;
