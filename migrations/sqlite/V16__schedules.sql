-- `owner` is the account for which the work runs: that of a person, or of the service identity of a configured
-- schedule. `off_why` says why it does not fire, `due` is the next time, and `failures` counts failed fires in a row.
-- `id` is part of the names of messages and operations, so that of a removed schedule is not given out again.
CREATE TABLE schedule (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner TEXT NOT NULL,
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    off_why TEXT,
    due INTEGER NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (owner, name)
);
CREATE INDEX schedule_due ON schedule (due) WHERE off_why IS NULL;

-- One row for each time that came. `inbox` is the message that it stored, if any, and `outcome` is missing until its
-- turn has ended. `pause` is the operation that says that the schedule is paused, if this fire is one failure too many.
CREATE TABLE schedule_fire (
    schedule INTEGER NOT NULL REFERENCES schedule (id),
    due INTEGER NOT NULL,
    fired_at INTEGER NOT NULL,
    inbox INTEGER,
    pause TEXT,
    outcome TEXT,
    ended_at INTEGER,
    PRIMARY KEY (schedule, due)
) WITHOUT ROWID;
CREATE INDEX schedule_fire_open ON schedule_fire (inbox) WHERE outcome IS NULL;
