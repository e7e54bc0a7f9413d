-- One-time codes of `drydock login` (`kind` is code), and the tokens that they were exchanged for (`kind` is token). This
-- table has only keyed hashes. A code is removed when it is used or replaced, and a token when its login ends.
CREATE TABLE login (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    user_id INTEGER NOT NULL REFERENCES users (id),
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX login_user ON login (user_id, kind);
