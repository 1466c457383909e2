package politenesstest

import (
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/hostname"
)

// A checker that uses the code it checks finds none of its mistakes.
func TestViolationsShareNoHelperWithTheLibrary(t *testing.T) {
	allowed := map[string]string{
		"robots": "it is held to the verdicts of Google's own parser by tests of its own; a second " +
			"matcher that reads files as leniently would be its copy",
		"internal/printable": "it escapes what a violation says and judges nothing",
		"internal/sfv":       "robots reads the values of fields by it",
		"internal/weblink":   "robots reads Link fields by it",
		"internal/hostname":  "internal/weblink reads hosts by it; the checker has code of its own",
	}
	const module = "github.com/go-politeness/politeness"
	// Every package that it is built from, whoever imports it, on whichever system.
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
		list.Env = append(os.Environ(), "GOOS="+system)
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]bool{}
		for path := range strings.FieldsSeq(string(out)) {
			name, ours := strings.CutPrefix(path, module)
			name = strings.TrimPrefix(name, "/")
			used[name] = ours
			if _, ok := allowed[name]; ours && !ok && name != "politenesstest" {
				t.Errorf("politenesstest is built from %s, which the library uses too: write it from the RFC instead", path)
			}
		}
		for name := range allowed {
			if !used[name] {
				t.Errorf("%s is no longer used: take it off the list", name)
			}
		}
	}
}

// The checker and the library spell hosts by code of their own, and come to the same.
func TestHostsAreSpelledAsByTheLibrary(t *testing.T) {
	names := []string{
		"example.com", "EXAMPLE.com", "example.com.", "example.com..", "under_score.example", "ex%61mple.com",
		"bücher.example", "BÜCHER.Example", "XN--Bcher-KVA.example", "straße.example", "example\u3002com", "ex\u00adample.com",
		"Under_ſcore.example", "127.0.0.1", "127.0.0.1.", "127.0.0.01", "\uff11\uff12\uff17.\uff10.\uff10.\uff11", "[::1]", "[2001:DB8:0::01]",
		"[fe80:0::1%25en0]", "[fe80::1%25EN0]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:1:2:3]",
	}
	for _, scheme := range []string{"http", "https"} {
		for _, name := range names {
			for _, port := range []string{"", ":", ":80", ":443", ":0080", ":8080", ":08080", ":0", ":00", ":180"} {
				u, err := url.Parse(scheme + "://" + name + port + "/")
				if err != nil {
					u = &url.URL{Scheme: scheme, Host: name + port}
				}
				if got, want := machineOf(u), hostname.Key(u.Host); got != want {
					t.Errorf("%q: machine %q, the library says %q", u.Host, got, want)
				}
				if got, want := originOf(u), scheme+"://"+hostname.Authority(scheme, u.Host); got != want {
					t.Errorf("%q: origin %q, the library says %q", u.Host, got, want)
				}
			}
		}
	}
}
