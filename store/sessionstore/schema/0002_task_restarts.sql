-- starts counts the restarts of a step after owners that died in it; abandon asks the next owner to cancel the task.
ALTER TABLE tasks ADD COLUMN starts INTEGER;
ALTER TABLE tasks ADD COLUMN abandon INTEGER;
