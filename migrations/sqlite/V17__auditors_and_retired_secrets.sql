-- 1 for a person who may read the conversations of others. No role includes this right.
ALTER TABLE users ADD COLUMN auditor INTEGER NOT NULL DEFAULT 0;

-- The previous secrets that are refused while the configuration still has them. `hash` is a keyed hash of the key and the
-- secret, so another secret of the same key is not refused.
CREATE TABLE retired_secret (
    hash BLOB PRIMARY KEY,
    key TEXT NOT NULL,
    retired_at INTEGER NOT NULL
) WITHOUT ROWID;
