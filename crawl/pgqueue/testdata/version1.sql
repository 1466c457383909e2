-- The tables of version 1.
-- A crawl, and the processes that show that they are alive.
CREATE TABLE IF NOT EXISTS politeness_crawl (
	id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS politeness_process (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	crawl integer NOT NULL,
	until timestamptz NOT NULL, -- end of its lease
	hosts integer NOT NULL,     -- number that it has
	room  boolean NOT NULL      -- it would take more
);

-- A host belongs to the process owner. waiting is whether it has URLs without an outcome; it is
-- true, too, until the owner that has ended the last one has given the host back.
CREATE TABLE IF NOT EXISTS politeness_host (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	owner   bigint,
	crawl   integer NOT NULL,
	waiting boolean NOT NULL,
	name    text NOT NULL,
	UNIQUE (crawl, name)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS politeness_host_free ON politeness_host (crawl, id) WHERE waiting AND owner IS NULL;
CREATE INDEX IF NOT EXISTS politeness_host_waiting ON politeness_host (crawl) WHERE waiting;
CREATE INDEX IF NOT EXISTS politeness_host_owner ON politeness_host (owner) WHERE owner IS NOT NULL;

-- A URL without an outcome is waiting. Which of these are lent only the owner of their host knows.
CREATE TABLE IF NOT EXISTS politeness_url (
	hash     uuid PRIMARY KEY, -- of the crawl and the URL
	seq      bigint GENERATED ALWAYS AS IDENTITY,
	host     bigint NOT NULL,
	depth    integer NOT NULL,
	priority integer NOT NULL,
	status   smallint,         -- of the last answer
	hops     smallint,
	url      text NOT NULL,
	via      text,
	outcome  text              -- crawl.Outcome
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS politeness_url_waiting ON politeness_url (host, priority DESC, seq) WHERE outcome IS NULL;
