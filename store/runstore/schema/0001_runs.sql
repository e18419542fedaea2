-- Runs of workflows. Times are Unix milliseconds, 0 = none. JSON is stored as its bytes; what is longer than the limit of
-- the package stands in wf_blob and is named by *_ref.

CREATE TABLE wf_owner (
	id       INTEGER PRIMARY KEY CHECK (id = 1),
	store_id TEXT NOT NULL,
	epoch    INTEGER NOT NULL
) STRICT;

CREATE TABLE wf_blob (
	sha256 BLOB PRIMARY KEY,
	bytes  BLOB NOT NULL
) STRICT;

CREATE TABLE wf_def (
	name        TEXT NOT NULL,
	version     INTEGER NOT NULL,
	fingerprint TEXT NOT NULL,
	graph       BLOB NOT NULL,
	created_at  INTEGER NOT NULL,
	PRIMARY KEY (name, version)
) STRICT;

CREATE TABLE wf_run (
	n                INTEGER PRIMARY KEY,
	id               TEXT NOT NULL UNIQUE,
	workflow         TEXT NOT NULL,
	version          INTEGER NOT NULL,
	fingerprint      TEXT NOT NULL,
	request_id       TEXT NOT NULL,
	digest           TEXT NOT NULL,
	conversation     TEXT NOT NULL,
	project          TEXT NOT NULL,
	labels           BLOB,
	input            BLOB,
	input_ref        BLOB,
	deadline         INTEGER NOT NULL,
	created_at       INTEGER NOT NULL,
	status           TEXT NOT NULL,
	reason           TEXT NOT NULL,
	cancel_requested INTEGER NOT NULL,
	failure          BLOB,
	result_path      TEXT NOT NULL,
	result_visit     INTEGER NOT NULL,
	wake_at          INTEGER NOT NULL,
	started_at       INTEGER NOT NULL,
	finished_at      INTEGER NOT NULL,
	last_seq         INTEGER NOT NULL,
	UNIQUE (workflow, request_id)
) STRICT;

CREATE INDEX wf_run_live ON wf_run (status, workflow, version)
	WHERE status NOT IN ('succeeded', 'failed', 'aborted', 'expired');
CREATE INDEX wf_run_conversation ON wf_run (conversation) WHERE conversation <> '';

CREATE TABLE wf_node (
	n           INTEGER PRIMARY KEY,
	run         INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	path        TEXT NOT NULL,
	visit       INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	status      TEXT NOT NULL,
	first_seq   INTEGER NOT NULL,
	output      BLOB,
	output_ref  BLOB,
	failure     BLOB,
	failures    INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	waits       BLOB,
	wake_at     INTEGER NOT NULL,
	started_at  INTEGER NOT NULL,
	finished_at INTEGER NOT NULL,
	inline      INTEGER NOT NULL,
	UNIQUE (run, path, visit)
) STRICT;

CREATE TABLE wf_event (
	run      INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	seq      INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	epoch    INTEGER NOT NULL,
	path     TEXT NOT NULL,
	visit    INTEGER NOT NULL,
	attempt  INTEGER NOT NULL,
	kind     TEXT NOT NULL,
	data     BLOB,
	data_ref BLOB,
	retract  INTEGER NOT NULL,
	source   TEXT,
	aux      INTEGER NOT NULL,
	PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- The sources of the chunks that count, each once in a run.
CREATE TABLE wf_source (
	run    INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	source TEXT NOT NULL,
	path   TEXT NOT NULL,
	visit  INTEGER NOT NULL,
	PRIMARY KEY (run, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_request (
	n            INTEGER PRIMARY KEY,
	id           TEXT NOT NULL UNIQUE,
	run          INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	path         TEXT NOT NULL,
	visit        INTEGER NOT NULL,
	key          TEXT NOT NULL,
	kind         TEXT NOT NULL,
	title        TEXT NOT NULL,
	payload      BLOB,
	schema       BLOB,
	status       TEXT NOT NULL,
	answer       BLOB,
	answered_by  TEXT NOT NULL,
	opened_at    INTEGER NOT NULL,
	resolved_at  INTEGER NOT NULL,
	expires_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX wf_request_run ON wf_request (run);
CREATE INDEX wf_request_open ON wf_request (opened_at) WHERE status = 'open';

CREATE TABLE wf_effect (
	run     INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	path    TEXT NOT NULL,
	visit   INTEGER NOT NULL,
	key     TEXT NOT NULL,
	done    INTEGER NOT NULL,
	result  BLOB,
	wake_at INTEGER NOT NULL,
	PRIMARY KEY (run, path, visit, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE wf_signal (
	n        INTEGER PRIMARY KEY,
	run      INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	id       TEXT NOT NULL,
	topic    TEXT NOT NULL,
	payload  BLOB,
	consumed INTEGER NOT NULL,
	UNIQUE (run, id)
) STRICT;

CREATE TABLE wf_usage (
	n         INTEGER PRIMARY KEY,
	run       INTEGER NOT NULL REFERENCES wf_run (n) ON DELETE CASCADE,
	record_id TEXT NOT NULL,
	path      TEXT NOT NULL,
	visit     INTEGER NOT NULL,
	usage     BLOB NOT NULL,
	UNIQUE (run, record_id)
) STRICT;
