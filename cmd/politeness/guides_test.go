package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/localsite"
)

var (
	fenced  = regexp.MustCompile("(?ms)^```(?:sh|text)\n(.*?)^```")
	argsOf  = regexp.MustCompile(`"[^"]*"|\S+`)
	comment = regexp.MustCompile(` +# .*`)
)

// TestGuidesRunAsWritten runs each command line of README.md and the guides, on a site of its own
// in place of example.com, and in the order of each document: an audit reads what a crawl has left.
func TestGuidesRunAsWritten(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, name := range append(guides, "../../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		site := localsite.New(t, 0)
		for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
				line, ours := strings.CutPrefix(strings.TrimPrefix(line, "$ "), "politeness ")
				if !ours {
					continue
				}
				line = comment.ReplaceAllString(line, "")
				args := argsOf.FindAllString(line, -1)
				for i, arg := range args {
					arg = strings.ReplaceAll(strings.Trim(arg, `"`), "~", dir)
					if strings.HasPrefix(arg, "https://example.com/") {
						arg = site.URL + strings.TrimPrefix(arg, "https://example.com")
					}
					args[i] = arg
				}
				ran[args[0]]++
				if args[0] == "proxy" {
					if runtime.GOOS != "windows" {
						startProxy(t, nil, args[1:]...) // it would fail
					}
					continue
				}
				cmd := prepare(t, nil, args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: politeness %s: %v\n%s", name, line, err, out)
				}
			}
		}
	}
	for _, name := range []string{"check", "crawl", "audit", "proxy"} {
		if ran[name] == 0 {
			t.Errorf("no guide shows politeness %s: %v", name, ran)
		}
	}
}
