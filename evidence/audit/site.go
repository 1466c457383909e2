package audit

import (
	"io"

	"github.com/go-politeness/politeness/evidence/audit/internal/sites"
	"github.com/go-politeness/politeness/evidence/audit/internal/trees"
)

// A Trust is what a reader of a log has from elsewhere: from the crawler's web page, from a
// mailbox, from a witness. The owner of a log can invent it anew as long as nobody has any of that.
// The zero Trust knows nothing.
type Trust struct {
	// Key is the verifier key of a signed log ("example.com/crawler+c74f20a3+AR..."), as
	// golang.org/x/mod/sumdb/note.NewEd25519VerifierKey makes it. Without it signatures stay open.
	Key string
	// Checkpoints are checkpoints that were made earlier. The log must begin with the very lines
	// that they were made of.
	Checkpoints [][]byte
}

// Check is [Check] for a reader who has a key, or checkpoints, to hold the logs against. A key or a
// checkpoint that can't be read is an error.
func (t Trust) Check(logs ...io.Reader) (*Report, error) {
	f, err := trees.Read(t.Key, t.Checkpoints)
	if err != nil {
		return nil, err
	}
	return check(f, nil, logs)
}

// Signed says what the checkpoints of a signed log prove.
type Signed struct {
	Checkpoints int    `json:"checkpoints"`      // number of those that are right
	Records     int    `json:"records"`          // number of records before them
	After       int    `json:"after"`            // number of records after the last one, or of all if there is none
	Key         string `json:"key,omitempty"`    // name and hash of the key, "" where none was given
	Older       int    `json:"older,omitempty"`  // number of older checkpoints that the log extends
	Latest      string `json:"latest,omitempty"` // the last right checkpoint, a signed note: keep it to hold the next log against
}

// CheckSite judges what a log says of the given hosts, and of the names below them: for the owner
// of one of them, who doesn't care about the rest. It can't tell whether the log is whole: see
// [Check].
func CheckSite(log io.Reader, hosts ...string) (*Report, error) {
	site, err := sites.Read(hosts)
	if err != nil {
		return nil, err
	}
	r, err := check(new(trees.Forest), site, []io.Reader{log})
	r.Numbered, r.Chained = false, false
	whole := &r.Promises[logWhole]
	*whole = Promise{whole.Name, "lines of it", 0, 1, whole.Broken, []string{"only the records of some hosts were judged"}}
	return r, err
}
