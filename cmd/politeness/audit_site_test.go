package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// TestASiteIsToldWhatWasDoneThere takes the way from a signed log to the site's owner.
func TestASiteIsToldWhatWasDoneThere(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey("example.com/crawler", public)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var checkpoint []byte
	records := logtest.Crawl(4, 20)
	log := write("crawl.jsonl", string(logtest.WriteWith(t, records, evidence.LogConfig{Signed: &evidence.SignConfig{
		Key:     private,
		Origin:  "example.com/crawler",
		Publish: func(c []byte) { checkpoint = c },
	}})))
	mailed := write("checkpoint", string(checkpoint))
	bundle, page := in("h1.bundle"), in("page.html")

	polite(t, nil, "audit", "-key", key, "-checkpoint", mailed, log).expect(t, 0, "signed by example.com/crawler+", "")
	polite(t, nil, "audit", "extract", "-host", "h1.example", "-o", bundle, "-checkpoint", mailed, log).expect(t, 0, "", "records of h1.example")
	if text := read("h1.bundle"); strings.Contains(text, "h2.example") || !strings.Contains(text, "h1.example") {
		t.Error(text)
	}
	if r := polite(t, nil, "audit", "extract", "-host", "h1.example", "-checkpoint", mailed, log); r.out != read("h1.bundle") {
		t.Error("the output isn't what -o writes")
	}
	polite(t, nil, "audit", "verify", "-key", key, "-checkpoint", mailed, "-html", page, bundle).expect(t, 0, "signed by example.com/crawler+", "")
	if text := read("page.html"); !strings.Contains(text, "h1.example") || strings.Contains(text, "h2.example") || !strings.Contains(text, "</html>") {
		t.Error(text)
	}
	polite(t, nil, "audit", "verify", bundle).expect(t, 3, "an unknown key", "")
	polite(t, nil, "audit", "-host", "h1.example", "-html", page, log).expect(t, 3, "delays kept", "")
	if text := read("page.html"); !strings.Contains(text, "h1.example") || strings.Contains(text, "h2.example") {
		t.Error("the dossier isn't of h1.example alone")
	}
	var answer struct{ Records int }
	if r := polite(t, nil, "audit", "verify", "-json", bundle); json.Unmarshal([]byte(r.out), &answer) != nil || answer.Records == 0 {
		t.Error(r.out)
	}
	forged := write("forged.bundle", strings.Replace(read("h1.bundle"), `"status":200`, `"status":201`, 1))
	polite(t, nil, "audit", "verify", "-key", key, "-html", page, forged).expect(t, 1, "not proved", page+" isn't written")
	var refused struct {
		NotProved string `json:"not_proved"`
	}
	if r := polite(t, nil, "audit", "verify", "-json", forged); r.status != 1 || json.Unmarshal([]byte(r.out), &refused) != nil || refused.NotProved == "" {
		t.Error(r.status, r.out)
	}
	polite(t, nil, "audit", "extract", "-host", "h1.example", write("unsigned.jsonl", string(logtest.Write(t, records)))).expect(t, 2, "",
		"politeness audit extract: the log has no checkpoint, so nothing in it can be proved: the crawler has to sign it")

	// The site's own log, in two files, has one request more.
	var access []string
	for _, r := range records {
		if r.Type == evidence.Fetched && r.Host == "h1.example" {
			target := strings.TrimPrefix(strings.TrimPrefix(r.URL, "https://h1.example"), "http://h1.example")
			access = append(access, fmt.Sprintf("192.0.2.1 - - [%s] \"GET %s HTTP/1.1\" %d %d \"-\" \"TestBot/1.0\"",
				r.Start.Format("02/Jan/2006:15:04:05 -0700"), target, r.Status, r.Bytes))
		}
	}
	half := len(access) / 2
	older, newer := write("access.log.1", strings.Join(access[:half], "\n")), write("access.log", strings.Join(access[half:], "\n"))
	polite(t, nil, "audit", "access", "-html", page, bundle, newer, older).expect(t, 0, "every request that the site saw", "")
	more := write("more.log", strings.Replace(access[half], "GET /", "GET /secret", 1)+"\n")
	polite(t, nil, "audit", "access", "-html", page, "-host", "h1.example", log, newer, older, more).expect(t, 1, "missing from the evidence", "")
	if text := read("page.html"); !strings.Contains(text, "/secret") {
		t.Error(text)
	}
	polite(t, nil, "audit", "access", "-host", "h1.example", "-host", "www.h1.example", log, newer, older).expect(t, 0, "every request that the site saw", "")
	other := write("other.log", strings.ReplaceAll(read("access.log"), "TestBot", "OtherBot"))
	polite(t, nil, "audit", "access", bundle, other).expect(t, 3, "nothing was compared: no line of the access log is a request of TestBot", "")
	if r := polite(t, nil, "audit", "access", "-json", "-host", "h1.example", log, newer, older, more); !bytes.Contains([]byte(r.out), []byte(`"missing"`)) {
		t.Error(r.out)
	}

	for args, want := range map[string]string{
		"audit extract " + log:                              "-host is missing",
		"audit extract -host h1.example a b":                "one LOG is wanted",
		"audit extract -host https://h1.example/ " + log:    "isn't a host",
		"audit extract -host h1.example":                    "LOG is missing",
		"audit verify":                                      "BUNDLE is missing",
		"audit verify a b":                                  "one BUNDLE is wanted",
		"audit verify -key x " + bundle:                     `the key "x"`,
		"audit verify -checkpoint " + bundle + " " + bundle: "checkpoint 1",
		"audit verify no-such-file":                         "no-such-file",
		"audit access " + log:                               "ACCESSLOG is missing",
		"audit access " + log + " " + newer:                 "-host",
		"audit -host h1.example " + log + " " + log:         "-host judges one log",
		"audit -checkpoint no-such-file " + log:             "no-such-file",
	} {
		polite(t, nil, strings.Fields(args)...).expect(t, 2, "", want)
	}
	for _, command := range []string{"extract", "verify", "access"} {
		polite(t, nil, "audit", command, "-h").expect(t, 0, "Usage: politeness audit "+command, "")
	}
}

// TestAuditOfAHostProvesOnlyWhatItJudged: nothing of a host that the log doesn't have, of a log that
// can't be read twice, or beside a promise that is broken.
func TestAuditOfAHostProvesOnlyWhatItJudged(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log.jsonl")
	put := func(records []evidence.Decision) {
		t.Helper()
		if err := os.WriteFile(log, logtest.WriteWith(t, records, evidence.LogConfig{Chained: true}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole := logtest.Crawl(2, 20)
	put(whole)
	r := polite(t, nil, "audit", "-host", "h0.example", "-host", "nobody.example", log)
	if r.expect(t, 3, "no record is about nobody.example", ""); strings.Contains(r.out, "about h0.example") || strings.Contains(r.out, "Proved:") {
		t.Error(r.out)
	}
	if r := polite(t, nil, "audit", "-host", "H0.example.", log); strings.Contains(r.out, "is that its name?") {
		t.Error(r.out)
	}

	var starts []int // of h1
	for i, d := range whole {
		if d.Type == evidence.Started && d.Host == "h1.example" {
			starts = append(starts, i)
		}
	}
	lost := whole[starts[len(starts)/2]]
	put(slices.DeleteFunc(slices.Clone(whole), func(d evidence.Decision) bool {
		return d.Host == lost.Host && d.Trip == lost.Trip && d.Attempt == lost.Attempt && (d.Type == evidence.Started || d.Type == evidence.Fetched || d.Type == evidence.Failed)
	}))
	polite(t, nil, "audit", log).expect(t, 1, "log whole                      BROKEN", "")
	polite(t, nil, "audit", "-host", "h1.example", log).expect(t, 1, "log whole                      BROKEN", "")
	if r := polite(t, nil, "audit", "-host", "h0.example", log); r.status == 1 || strings.Contains(r.out, "BROKEN") {
		t.Error("the start that is missing isn't one of h0.example:", r.out)
	}

	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if err := os.WriteFile(log, bytes.Join(slices.Delete(lines, 30, 31), nil), 0o600); err != nil {
		t.Fatal(err)
	}
	polite(t, nil, "audit", "-host", "h0.example", log).expect(t, 1, "log whole                      BROKEN", "")

	if runtime.GOOS == "windows" {
		return // no /dev/stdin
	}
	for _, args := range [][]string{{"-host", "h1.example"}, {"-html", filepath.Join(t.TempDir(), "page.html")}} {
		cmd := prepare(t, nil, append(append([]string{"audit"}, args...), "/dev/stdin")...)
		cmd.Stdin = io.MultiReader(bytes.NewReader(text)) // a pipe
		if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "no regular file") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestReportsReplaceNothingThatWasRead, nor a file of yesterday before they are whole.
func TestReportsReplaceNothingThatWasRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log, other := filepath.Join(dir, "crawl.jsonl"), filepath.Join(dir, "link.jsonl")
	text := logtest.WriteWith(t, logtest.Crawl(1, 5), evidence.LogConfig{Chained: true})
	if err := os.WriteFile(log, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(log, other); err != nil {
		t.Skip(err)
	}
	for _, to := range []string{log, other} {
		for _, args := range [][]string{{"audit", "-html", to, log}, {"audit", "-host", "h0.example", "-html", to, log}} {
			polite(t, nil, args...).expect(t, 2, "", "was read: write to another file")
		}
	}
	if got, err := os.ReadFile(log); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the log was changed: %v", err)
	}

	page := filepath.Join(dir, "page.html")
	if err := os.WriteFile(page, []byte("yesterday"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no space left")
	if err := writeFile(page, []string{log}, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != "yesterday" {
		t.Errorf("%q, %v", got, err)
	}
	polite(t, nil, "audit", "-html", page, log)
	if info, err := os.Stat(page); err != nil || info.Size() < 1000 || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("%v, %v", files, err)
	}
	if runtime.GOOS != "windows" {
		if r := polite(t, nil, "audit", "-html", "/dev/stdout", log); !strings.Contains(r.out, "</html>") {
			t.Error(r)
		}
	}
}

// TestAuditReadsStandardInput: "-" stands for it, also where a log is read again for a page.
func TestAuditReadsStandardInput(t *testing.T) {
	t.Parallel()
	log := logtest.Write(t, logtest.Crawl(2, 20))
	file := filepath.Join(t.TempDir(), "crawl.jsonl")
	if err := os.WriteFile(file, log, 0o600); err != nil {
		t.Fatal(err)
	}
	piped := func(args ...string) result {
		cmd := prepare(t, nil, args...)
		cmd.Stdin = bytes.NewReader(log)
		var out, errs bytes.Buffer
		cmd.Stdout = &out
		cmd.Stderr = &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	for _, flags := range [][]string{nil, {"-json"}, {"-html", page}, {"-host", "h1.example", "-html", page}} {
		args := append([]string{"audit"}, flags...)
		want := polite(t, nil, append(args, file)...)
		got := piped(append(args, "-")...)
		if got != want || want.out == "" {
			t.Errorf("%q: %+v, want %+v", flags, got, want)
		}
	}
	drawn, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(drawn), "h1.example") {
		t.Errorf("%s, %v", drawn, err)
	}
	piped("audit", "-", "-").expect(t, 2, "", "- is given twice")
	piped("audit", "-html", page, "-").expect(t, 3, "", "")
	drawn, err = os.ReadFile(page)
	if err != nil || !strings.Contains(string(drawn), "Crawl audit: standard input") {
		t.Errorf("the page doesn't name standard input, %v", err)
	}
}
