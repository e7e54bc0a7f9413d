-- Tokens that an operator made for a person (`kind` is personal), beside those of machines. Only they have these columns.
-- A name is unique for its person, `scopes` is a list as JSON, and `used_at` is at most an hour before the last use.
ALTER TABLE login ADD COLUMN name TEXT;
ALTER TABLE login ADD COLUMN scopes TEXT;
ALTER TABLE login ADD COLUMN used_at INTEGER;
CREATE UNIQUE INDEX login_name ON login (user_id, name) WHERE name IS NOT NULL;
