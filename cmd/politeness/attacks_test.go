package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
)

// hostileFiles are what a stranger may leave where a command reads.
func hostileFiles() map[string]string {
	const evil = "\x1b]0;x\x07\x1b[2J\u202e\u009b31m"
	record := `{"type":"fetched","timestamp":"2026-01-01T00:00:00Z","url":"https://example.com/` + evil + `","host":"` + evil + `","allowed":true,"reason":"` + evil + `"}`
	return map[string]string{
		"empty":         "",
		"binary":        "\x7fELF\x02\x01\x01\x00\xff\xfe\x00\x00" + strings.Repeat("\x00\xff\x80", 4096),
		"escapes":       evil + "\n" + record + "\n" + evil + "\n",
		"one long line": strings.Repeat("a", 4<<20),
		"many lines":    strings.Repeat("{}\n", 100_000),
		"deep":          strings.Repeat("[", 1<<20),
		"deep objects":  strings.Repeat(`{"a":`, 1<<18),
		"half a record": record[:len(record)/2],
		"huge numbers":  `{"type":"fetched","status":1e999999,"bytes":99999999999999999999,"delay":-1e308,"timestamp":"9999-99-99T99:99:99Z"}` + "\n",
		"far times":     `{"type":"started","timestamp":"0000-01-01T00:00:00Z","seq":18446744073709551615,"slots":-1}` + "\n" + `{"type":"started","timestamp":"9999-12-31T23:59:59Z"}` + "\n",
		"another file":  "file:///etc/passwd\n/etc/passwd\n../../etc/passwd\n@/etc/passwd\nhttp://127.0.0.1:1/../../etc/passwd\n",
		"UTF-16":        "\xff\xfeU\x00s\x00e\x00r\x00",
		"gzip":          "\x1f\x8b\x08\x00\x00\x00\x00\x00",
	}
}

// TestHostileFiles: no file that a command reads makes it panic, puts a control character on the
// terminal, or shows what another file holds.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	site := localsite.New(t, 0)
	dir := t.TempDir()
	good := filepath.Join(dir, "good.jsonl")
	polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-pages", "1", "-evidence", good, "-o", filepath.Join(dir, "good.out"), site.URL+"/").expect(t, 0, "", "")
	for name, text := range hostileFiles() {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"lint", file},
			{"audit", file},
			{"audit", "-json", file},
			{"audit", "-html", file + ".html", file},
			{"audit", "-checkpoint", file, good},
			{"audit", "-key", text[:min(len(text), 100)], good},
			{"audit", "extract", "-host", "example.com", "-o", file + ".bundle", file},
			{"audit", "verify", file},
			{"audit", "access", "-host", "example.com", good, file},
			{"audit", "access", "-host", "example.com", file, good},
			{"crawl", "-agent", agent, "-n", "-urls", file},
			{"crawl", "-agent", agent, "-delay", "10ms", "-state", file, site.URL + "/"},
			{"crawl", "-agent", agent, "-delay", "10ms", "-pages", "1", "-evidence", file + ".log", "-o", file, site.URL + "/"},
		} {
			if strings.Contains(strings.Join(args, ""), "\x00") {
				continue // no argument can hold one
			}
			r := polite(t, nil, args...)
			said := r.out + r.errs
			if r.status > 3 || r.status < 0 || strings.Contains(said, "panic:") || strings.Contains(said, "goroutine ") {
				t.Errorf("%s: %.60q: status %d: %.2000s", name, args, r.status, said)
			}
			if i := strings.IndexAny(said, "\x1b\x07\u202e\u009b"); i >= 0 {
				t.Errorf("%s: %.60q: %.300q", name, args, said[max(0, i-100):])
			}
			if strings.Contains(said, "root:") {
				t.Errorf("%s: %.60q shows another file: %.300q", name, args, said)
			}
		}
		page, err := os.ReadFile(file + ".html")
		if err == nil && strings.ContainsAny(string(page), "\x1b\x07\u202e\u009b") {
			t.Errorf("%s: the page has control characters", name)
		}
	}
}
