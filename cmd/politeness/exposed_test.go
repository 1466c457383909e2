package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/internal/logtest"
)

// TestALogThatOthersMayWriteIsWarnedOf: whoever can write to a log of evidence can accuse the crawler, or
// clear it.
func TestALogThatOthersMayWriteIsWarnedOf(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the mode of a file says nothing there")
	}
	site := localsite.New(t, 0)
	dir := t.TempDir()
	log := filepath.Join(dir, "crawl.jsonl")
	text := logtest.Write(t, []evidence.Decision{{Type: evidence.LogClosed, Time: time.Now(), Allowed: true}})
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}
	const warning = "others may write to "
	for _, c := range []struct {
		file, dir os.FileMode
		want      bool
	}{
		{0o600, 0o755, false},
		{0o664, 0o775, false},
		{0o666, 0o755, true},
		{0o600, 0o777, true},
		{0o600, 0o777 | os.ModeSticky, false},
	} {
		if err := os.Chmod(log, c.file); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, c.dir); err != nil {
			t.Fatal(err)
		}
		r := polite(t, nil, "audit", log)
		if got := len(r.errs) >= len(warning) && r.errs[:len(warning)] == warning; got != c.want {
			t.Errorf("%v in %v: %q", c.file, c.dir, r.errs)
		}
		// Who writes it is told as well.
		r = polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-evidence", log, "-o", filepath.Join(t.TempDir(), "pages"), site.URL+"/")
		if got := strings.Contains(r.errs, warning); got != c.want || r.status != 0 {
			t.Errorf("a crawl, %v in %v: status %d, %q", c.file, c.dir, r.status, r.errs)
		}
	}
}
