-- The trace that the runs of a job continue, as W3C Trace Context writes it.
ALTER TABLE job_bodies ADD COLUMN trace text;
