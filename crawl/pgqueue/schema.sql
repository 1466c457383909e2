-- The version of the tables, in one row.
CREATE TABLE IF NOT EXISTS politeness_version (
	version integer NOT NULL
);
INSERT INTO politeness_version SELECT 2 WHERE NOT EXISTS (SELECT 1 FROM politeness_version);

-- A crawl, and the processes that show that they are alive.
CREATE TABLE IF NOT EXISTS politeness_crawl (
	id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL UNIQUE
);
CREATE TABLE IF NOT EXISTS politeness_worker (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	crawl integer NOT NULL,
	until timestamptz NOT NULL, -- end of its lease
	hosts integer NOT NULL,     -- number that it has
	room  boolean NOT NULL      -- it would take more
);

-- A host belongs to the process owner. next is the due time of the first of its URLs, NULL if none
-- is waiting; it is set, too, until the owner that has ended the last one has given the host back.
CREATE TABLE IF NOT EXISTS politeness_host (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	owner bigint,
	crawl integer NOT NULL,
	name  text NOT NULL,
	next  bigint,
	UNIQUE (crawl, name)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS politeness_host_free ON politeness_host (crawl, next)
	WHERE next IS NOT NULL AND owner IS NULL;
CREATE INDEX IF NOT EXISTS politeness_host_next ON politeness_host (crawl) WHERE next IS NOT NULL;
CREATE INDEX IF NOT EXISTS politeness_host_owner ON politeness_host (owner) WHERE owner IS NOT NULL;

-- A URL with a due time is waiting. Which of these are lent only the owner of their host knows. URLs
-- wait in the order of their due times, once these have come: of a new one that is when it was added.
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
	outcome  text,             -- crawl.Outcome
	later    smallint NOT NULL DEFAULT 0, -- how far it is postponed, 0 to 3
	due      bigint,           -- in seconds since 1970; NULL: the URL is done
	mark     bigint,           -- hash of what has postponed it
	from_url text,
	data     bytea,
	page     bytea             -- what is remembered of its page
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX IF NOT EXISTS politeness_url_due ON politeness_url (host, priority DESC, later, due, seq)
	WHERE due IS NOT NULL;
CREATE INDEX IF NOT EXISTS politeness_url_mark ON politeness_url (host, mark) WHERE later > 0;
