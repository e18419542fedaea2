-- Forks of runs, what their records need, and what removing runs needs.

ALTER TABLE wf_run ADD COLUMN forked_from TEXT NOT NULL DEFAULT ''; -- id of the source
ALTER TABLE wf_run ADD COLUMN fork BLOB;                            -- the rest of runlog.Fork
ALTER TABLE wf_run ADD COLUMN fork_ref BLOB;

ALTER TABLE wf_node ADD COLUMN input_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE wf_node ADD COLUMN kept_from TEXT NOT NULL DEFAULT '';  -- id of the run that computed the result
ALTER TABLE wf_node ADD COLUMN last_seq INTEGER NOT NULL DEFAULT 0;

-- Live forks by their source.
CREATE INDEX wf_run_fork ON wf_run (forked_from)
	WHERE forked_from <> '' AND status NOT IN ('succeeded', 'failed', 'aborted', 'expired');

-- What retention looks through.
CREATE INDEX wf_run_ended ON wf_run (workflow, finished_at, id)
	WHERE status IN ('succeeded', 'failed', 'aborted', 'expired');

-- Who needs a blob. Few rows have one.
CREATE INDEX wf_run_input_ref ON wf_run (input_ref) WHERE input_ref IS NOT NULL;
CREATE INDEX wf_run_fork_ref ON wf_run (fork_ref) WHERE fork_ref IS NOT NULL;
CREATE INDEX wf_node_output_ref ON wf_node (output_ref) WHERE output_ref IS NOT NULL;
CREATE INDEX wf_event_data_ref ON wf_event (data_ref) WHERE data_ref IS NOT NULL;
CREATE INDEX wf_cache_output_ref ON wf_cache (output_ref) WHERE output_ref IS NOT NULL;
