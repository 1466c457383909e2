-- Makes tables of version 2 of those of version 1, in which a URL without an outcome was waiting. The
-- table of processes has a new name, so that a process of the older version fails with a word, and
-- leaves no URL behind that this version doesn't see. schema.sql makes the rest.
ALTER TABLE politeness_process RENAME TO politeness_worker;
DROP INDEX politeness_host_free, politeness_host_waiting, politeness_url_waiting;
ALTER TABLE politeness_host ADD COLUMN next bigint;
UPDATE politeness_host SET next = 0 WHERE waiting;
ALTER TABLE politeness_host DROP COLUMN waiting;
ALTER TABLE politeness_url
	ADD COLUMN later smallint NOT NULL DEFAULT 0,
	ADD COLUMN due bigint,
	ADD COLUMN mark bigint,
	ADD COLUMN from_url text,
	ADD COLUMN data bytea,
	ADD COLUMN page bytea;
UPDATE politeness_url SET due = 0 WHERE outcome IS NULL;
