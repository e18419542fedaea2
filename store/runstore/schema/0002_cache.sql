-- Results that runs share. A run may go before what it computed, so nothing refers to it.
CREATE TABLE wf_cache (
	key        TEXT NOT NULL,
	version    INTEGER NOT NULL,
	input      TEXT NOT NULL,
	output     BLOB,
	output_ref BLOB,
	at         INTEGER NOT NULL,
	run        TEXT NOT NULL,
	path       TEXT NOT NULL,
	visit      INTEGER NOT NULL,
	PRIMARY KEY (key, version, input)
) STRICT, WITHOUT ROWID;
