package promises_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

// writeState writes the file of key below dir, as a version of the library does whose format that is.
func writeState(t *testing.T, dir, format, key, data string) {
	t.Helper()
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(key)))
	file := filepath.Join(dir, name[:2], name)
	sealed := fmt.Sprintf("%s %x\n%s", format, sha256.Sum256([]byte(data)), data)
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(sealed), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// TestStateOfAnotherVersionIsToldByName: a directory of the version before the lock and the id, whose
// files have the same format, is kept; a host's file of another format is begun anew, and evidence says
// which version has made it.
func TestStateOfAnotherVersionIsToldByName(t *testing.T) {
	const block = `{"key":"example.com","value":{"blockedUntil":"2000-01-02T00:00:00Z","refusals":1,` +
		`"cause":"status 429","blockedAt":"2000-01-01T00:00:00Z"}}` + "\n"
	const copied = `{"origin":"https://example.com","url":"https://example.com/robots.txt","status":200,` +
		`"fetched":"2000-01-01T00:00:00Z"}` + "\nUser-agent: *\nDisallow: /\n"
	for _, c := range []struct {
		hosts, robots string // formats
		want          error  // of a page
		lost          string // reason on record
	}{
		{"hostlimit 2", "robotscache 1", politeness.ErrDisallowed, ""},
		{"hostlimit 2", "robotscache 9", politeness.ErrBlocked, ""},
		{"hostlimit 1", "robotscache 9", nil, "made by a later version of this library (format robotscache 9, this one has 1): begun anew"},
		{"hostlimit 1", "robotscache 0", nil, "made by an older version of this library (format hostlimit 1, this one has 2): begun anew"},
		{"hostlimit 3", "robotscache 0", nil, "made by a later version of this library (format hostlimit 3, this one has 2): begun anew"},
	} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			writeState(t, filepath.Join(dir, "hosts"), c.hosts, "example.com", block)
			writeState(t, filepath.Join(dir, "robots"), c.robots, "https://example.com", copied)
			r := &runner{T: t, web: politenesstest.NewWeb(), cfg: politeness.Config{UserAgent: agent}.WithState(dir)}
			r.web.Site("https://example.com").Page("/", "")
			if _, err := r.fetch("https://example.com/"); !errors.Is(err, c.want) {
				t.Errorf("%s, %s: %v, want %v", c.hosts, c.robots, err, c.want)
			}
			reasons := ""
			for _, d := range r.records(evidence.StateLost) {
				reasons += d.Reason + "\n"
			}
			if !strings.Contains(reasons, c.lost) || (c.lost == "" && reasons != "") {
				t.Errorf("%s, %s: on record: %q, want %q", c.hosts, c.robots, reasons, c.lost)
			}
		})
	}
}
