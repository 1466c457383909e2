package main

import (
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "demo.sqlite")
	o, err := parseFlags([]string{"-db", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := demo(t.Context(), &out, &out, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`host blocked .*/busy: it answered 429, by Retry-After`,
		`12 URLs: 7 stored, 1 noindex, 1 missing, 1 redirected, 2 refused; see table pages of .*demo.sqlite`,
		`12 URLs: 10 fresh, 2 refused`,
		`12 URLs: 1 stored, 6 unchanged, 1 noindex, 1 missing, 1 redirected, 2 refused`,
		`127\.0\.0\.1:\d+\)/moved +200 +\d+ +2`,
		`127\.0\.0\.1:\d+\)/noindex +200 +0 +0  noindex`,
		`9 URLs: 7 stored, 1 redirected, 1 refused; see table by_links of`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the output has no %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if n := len(rows(t, o)); n != 11 { // by path, and both sites have a "/"
		t.Errorf("the file has %d paths, want 11", n)
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{ // want: in the error; empty: none
		"":                                       "",
		"-threads 1":                             "",
		"-threads 32":                            "",
		"-threads -1":                            "-threads",
		"-threads 33":                            "-threads",
		"-mode links -depth 0 https://a.example": "",
		"-mode everything":                       "-mode",
		"-timeout 0s":                            "-timeout",
		"-timeout soon":                          "-timeout",
		"-keepalive=false":                       "",
		"-proxy http://localhost:3128":           "",
		"-proxy localhost":                       "-proxy",
		"-max-pages 0":                           "-max-pages",
		"-depth -1":                              "-depth",
		"https://a.example/ -retries 0":          "-retries comes too late",
		"ftp://a.example/":                       "ftp://a.example/",
		"-threads 99 -mode x /path":              "/path",
	} {
		_, err := parseFlags(strings.Fields(args), io.Discard)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want one with %q", args, err, want)
		}
	}
	o, err := parseFlags([]string{"-accept", "text/html, image/*", "HTTPS://A.Example:443"}, io.Discard)
	if err != nil || strings.Join(o.accept, " ") != "text/html image/*" || strings.Join(o.seeds, " ") != "https://a.example/" {
		t.Errorf("%q, %q, %v", o.accept, o.seeds, err)
	}
}

// The commands of docs/crawl.md, one after the other in one directory, on a site of our own.
func TestGuideRunsAsWritten(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/crawl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(guide), "```sh\ncd examples/integrations/bulk\n")
	block, _, _ = strings.Cut(block, "```")
	if !ok {
		t.Fatal("docs/crawl.md has no commands of this program")
	}
	s := startSites()
	defer s.Close()
	dir, ran := t.TempDir(), 0
	db, err := sql.Open(databaseOf("web.duckdb"), filepath.Join(dir, "web.duckdb"))
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, "CREATE TABLE candidates (url TEXT)")
	mustExec(t, db, "INSERT INTO candidates VALUES (?)", s.first.URL+"/page/1")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "#")
		var args []string
		for _, arg := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(strings.TrimPrefix(line, "go run . "), -1) {
			arg = strings.Trim(arg, `"`)
			if arg == "https://example.com/" {
				arg = s.first.URL + "/"
			}
			args = append(args, arg)
		}
		if databaseOf("web.duckdb") != string(duckdb) {
			args = append([]string{"-engine", "sqlite"}, args...)
		}
		cmd := program(t, args...)
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		ran++
	}
	if ran != 3 {
		t.Errorf("%d commands", ran)
	}
	for file, tables := range map[string][]string{"bulk.sqlite": {"pages", "linked"}, "web.duckdb": {"answers"}} {
		e := engine(databaseOf(file))
		for _, into := range tables {
			if n := len(rows(t, options{db: filepath.Join(dir, file), engine: e, into: into})); n == 0 {
				t.Errorf("%s: no rows in %s", file, into)
			}
		}
	}
}

// databaseOf returns the engine of a file in this build, which may have no DuckDB.
func databaseOf(file string) string {
	if e, err := engineOf("", file); err == nil {
		return string(e)
	}
	return string(sqlite)
}
