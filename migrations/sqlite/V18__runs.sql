-- Runs of pipelines. `owner` is the account for which the work runs. `plan` and `inputs` are those of the start; a later change
-- of the definition changes neither. `event` is the delivery name of the event that started it, if one did; the names of
-- deliveries are kept longer than the run. At most one run of a `concurrency_group` has the status `running`. `due` is 1 while
-- the driver has to look at the run, and `version` counts the changes of the run and its steps. `place` is where a person
-- started it. The large columns are last, so that lists do not read them. `id` is part of the names of messages and
-- operations, so that of a removed run is not given out again.
CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    pipeline TEXT NOT NULL,
    repository TEXT NOT NULL,
    owner TEXT NOT NULL,
    started_by TEXT NOT NULL,
    status TEXT NOT NULL,
    why TEXT,
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    retry_of INTEGER,
    event TEXT,
    concurrency_group TEXT,
    on_conflict TEXT NOT NULL,
    seconds_max INTEGER NOT NULL,
    deadline INTEGER,
    version INTEGER NOT NULL DEFAULT 0,
    due INTEGER NOT NULL,
    channel TEXT,
    place TEXT,
    base TEXT NOT NULL,
    plan TEXT NOT NULL,
    inputs TEXT NOT NULL
);
CREATE UNIQUE INDEX run_event ON run (event) WHERE event IS NOT NULL;
CREATE INDEX run_due ON run (id) WHERE due = 1;
CREATE INDEX run_deadline ON run (deadline) WHERE ended_at IS NULL;
CREATE INDEX run_open ON run (owner) WHERE ended_at IS NULL;
CREATE INDEX run_group ON run (concurrency_group, id) WHERE ended_at IS NULL AND concurrency_group IS NOT NULL;

-- The steps of a run, by their place in the plan. `result` is the end of a step. `inbox` is the message with which an agent
-- step begins; the transaction that ends its turn also ends the step.
CREATE TABLE run_step (
    run INTEGER NOT NULL REFERENCES run (id),
    step INTEGER NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    inbox INTEGER,
    conversation INTEGER,
    change_number INTEGER,
    result TEXT,
    PRIMARY KEY (run, step)
);
CREATE INDEX run_step_open ON run_step (inbox) WHERE inbox IS NOT NULL AND ended_at IS NULL;
