package docs

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence/audit"
)

// A tutorial is the guide ten-minutes.md, whose programs are built in the root module.
type tutorial struct {
	code   []string // its blocks of Go code
	output []string // its blocks of text
	site   string   // host and port that the site gets in place of localhost:8080
	dir    string
	held   net.Listener // keeps the port of site free for it
}

var textFence = regexp.MustCompile("(?ms)^```text\n(.*?)^```")

func openTutorial(t *testing.T) *tutorial {
	t.Helper()
	text, err := os.ReadFile("ten-minutes.md")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	g := &tutorial{site: "localhost:" + port, dir: t.TempDir(), held: listener}
	for _, block := range goBlocks("ten-minutes.md", string(text)) {
		g.code = append(g.code, strings.ReplaceAll(block.code, "localhost:8080", g.site))
	}
	for _, block := range textFence.FindAllStringSubmatch(string(text), -1) {
		g.output = append(g.output, block[1])
	}
	return g
}

// find returns the one block of code that has all of words.
func (g *tutorial) find(t *testing.T, words ...string) string {
	t.Helper()
	var found []string
	for _, code := range g.code {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(code, word) }) {
			found = append(found, code)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d blocks of code have %q", len(found), words)
	}
	return found[0]
}

// build builds a program of files, and returns its path.
func (g *tutorial) build(t *testing.T, name string, files ...string) string {
	t.Helper()
	program := filepath.Join(g.dir, name)
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	args := []string{"build", "-o", program}
	for i, code := range files {
		file := filepath.Join(g.dir, fmt.Sprintf("%s%d.go", name, i))
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return program
}

// crawl runs a crawler on the URLs of the guide, and returns what it prints.
func (g *tutorial) crawl(t *testing.T, program string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	for _, path := range []string{"", "about", "busy", "private/diary"} {
		cmd.Args = append(cmd.Args, "http://"+g.site+"/"+path)
	}
	cmd.Dir = g.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.ReplaceAll(string(out), g.site, "localhost:8080")
}

var (
	measured = regexp.MustCompile(`(?:\d+(?:[:.\-]\d+)*(?:µs|ms|[hms])?)+`)
	blanks   = regexp.MustCompile(` {2,}`)
)

// shape returns a line without what differs from one run to the next.
func shape(line string) string {
	return blanks.ReplaceAllString(measured.ReplaceAllString(strings.TrimSpace(line), "N"), " ")
}

// printed fails unless the lines of the guide are lines of the output, but for those that depend on
// which request comes first.
func printed(t *testing.T, guide, output string, depends ...string) {
	t.Helper()
	var shapes []string
	for line := range strings.Lines(output) {
		shapes = append(shapes, shape(line))
	}
	for line := range strings.Lines(guide) {
		hasWord := func(word string) bool { return strings.Contains(line, word) }
		if strings.HasPrefix(line, "$ ") || slices.ContainsFunc(depends, hasWord) {
			continue
		}
		if !slices.Contains(shapes, shape(line)) {
			t.Errorf("the guide has the line\n%s\nand the program printed\n%s", line, output)
		}
	}
}

// TestTenMinutes goes through ten-minutes.md as a newcomer does: its programs are built and run, and
// print what it says that they print.
func TestTenMinutes(t *testing.T) {
	t.Parallel()
	g := openTutorial(t)
	crawler := g.find(t, "package main", "func crawl(")
	newClient := header("net/http", "os", "", module, module+"/evidence") + g.find(t, "func newClient(")
	withoutMain := regexp.MustCompile(`(?ms)^func main\(\) \{.*?^\}\n`).
		ReplaceAllString(strings.Replace(crawler, "\t\"os\"\n", "", 1), "")
	g.serve(t)

	t.Run("1, the crawler", func(t *testing.T) {
		t.Parallel()
		printed(t, g.output[0], g.crawl(t, g.build(t, "rude", crawler)))
	})
	t.Run("2, one line around the client", func(t *testing.T) {
		t.Parallel()
		const newCode = `client, err := newClient(http.DefaultTransport)
	if err != nil {
		panic(err)
	}
	crawl(client, os.Args[1:])`
		polite := replace(t, crawler, "crawl(http.DefaultClient, os.Args[1:])", newCode)
		printed(t, g.output[1], g.crawl(t, g.build(t, "polite", polite, newClient)), "waiting ", "host free")
	})
	t.Run("5, prove it", func(t *testing.T) {
		t.Parallel()
		g.prove(t, withoutMain)
	})
	t.Run("6, test it", func(t *testing.T) {
		t.Parallel()
		g.test(t, withoutMain, newClient)
	})
}

// header returns the beginning of a program that imports packages; an empty one is a blank line.
func header(packages ...string) string {
	var b strings.Builder
	b.WriteString("package main\n\nimport (\n")
	for _, name := range packages {
		if name != "" {
			fmt.Fprintf(&b, "\t%q", name)
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\n")
	return b.String()
}

// replace returns code with a piece replaced, which it must have.
func replace(t *testing.T, code, old, piece string) string {
	t.Helper()
	if !strings.Contains(code, old) {
		t.Fatalf("the program has no %s", old)
	}
	return strings.Replace(code, old, piece, 1)
}

// serve runs the tutorial's site, and returns when it answers.
func (g *tutorial) serve(t *testing.T) {
	t.Helper()
	site := exec.CommandContext(t.Context(), g.build(t, "site", g.find(t, "package main", "http.ListenAndServe")))
	if err := g.held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := site.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = site.Process.Kill()
		_ = site.Wait()
	})
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get("http://" + g.site + "/about")
		if err == nil {
			resp.Body.Close()
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal(err)
		}
	}
}

// prove runs the program that writes a log, and audits that.
func (g *tutorial) prove(t *testing.T, withoutMain string) {
	t.Helper()
	code := g.find(t, "package main", "evidence.NewLog")
	proving := replace(t, code, "_ = client // crawl(client, os.Args[1:])", "crawl(client, os.Args[1:])")
	g.crawl(t, g.build(t, "proving", proving, withoutMain))
	log, err := os.ReadFile(filepath.Join(g.dir, "crawl.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	said := strings.ReplaceAll(report.String(), g.site, "localhost:8080")
	printed(t, g.output[2], said)
	printed(t, said, g.output[2])
}

// test runs the tutorial's test with the polite crawler, which passes, and with the rude one.
func (g *tutorial) test(t *testing.T, withoutMain, newClient string) {
	t.Helper()
	test := header("net/http", "testing", "testing/synctest", "time", "", module+"/politenesstest") +
		g.find(t, "func checkPolite(") + `
func TestPolite(t *testing.T) { checkPolite(t, newClient, crawl) }

func TestRude(t *testing.T) {
	rude := func(base http.RoundTripper) (*http.Client, error) { return &http.Client{Transport: base}, nil }
	checkPolite(t, rude, crawl)
}
`
	args := []string{"test", "-v"}
	for name, code := range map[string]string{
		"tested_test.go":   test,
		"tested.go":        withoutMain,
		"tested_client.go": newClient,
	} {
		file := filepath.Join(g.dir, name)
		if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", args...)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	said := string(out)
	isHeld := strings.Contains(said, "--- PASS: TestPolite") && strings.Contains(said, "--- FAIL: TestRude")
	if err == nil || !isHeld {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(g.output[3]) { // which requests it names depends on which comes first
		what, _, _ := strings.Cut(shape(line), " (GET ")
		if what != "..." && !strings.Contains(measured.ReplaceAllString(said, "N"), what) {
			t.Errorf("the guide says %q, and the test\n%s", what, out)
		}
	}
}
