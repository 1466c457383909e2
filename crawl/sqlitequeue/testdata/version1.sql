-- The tables of version 1.
CREATE TABLE IF NOT EXISTS host (
	id      INTEGER PRIMARY KEY,
	name    TEXT NOT NULL UNIQUE,
	waiting INTEGER NOT NULL DEFAULT 0 -- number of its URLs without an outcome
);
CREATE INDEX IF NOT EXISTS host_waiting ON host (id) WHERE waiting > 0;
CREATE TABLE IF NOT EXISTS url (
	id       INTEGER PRIMARY KEY, -- in the order in which they were added
	hash     INTEGER NOT NULL,
	url      TEXT NOT NULL,
	host     INTEGER NOT NULL REFERENCES host,
	via      TEXT,
	hops     INTEGER,
	depth    INTEGER NOT NULL,
	priority INTEGER NOT NULL,
	outcome  TEXT,                -- crawl.Outcome
	status   INTEGER              -- of the last answer
);
CREATE INDEX IF NOT EXISTS url_hash ON url (hash);
CREATE INDEX IF NOT EXISTS url_waiting ON url (host, priority DESC, id) WHERE outcome IS NULL;
PRAGMA user_version = 1;
