-- What a submission wants to be written into pictures besides the graph; nothing of most.
ALTER TABLE job_bodies ADD COLUMN extra_pnginfo TEXT;

-- What the run told of its nodes; nothing of runs before this change.
ALTER TABLE job_logs ADD COLUMN report TEXT;
