package interop

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The npm package of the HTTP cache tests. It is older than what cacheproxy/RESULTS.md is about.
const (
	cacheTests    = "http-cache-tests@0.4.5"
	cacheTestsSum = "DjuwN9nUZXLTW+wav1LRESCZNVxl8SshwOy4z1pxuWbWt5/ay6sM9QQ1lebBaDO6P1IMBoK6mdf+PuVP/QNL8A=="
)

// cacheDifferences are the tests that don't pass, of any kind, by the reason.
var cacheDifferences = map[string]string{
	"s-maxage is for shared caches, and a crawler's memory is a private one": `
		freshness-s-maxage-shared freshness-max-age-s-maxage-shared-longer
		freshness-max-age-s-maxage-shared-longer-reversed freshness-max-age-s-maxage-shared-longer-multiple
		freshness-max-age-s-maxage-shared-shorter freshness-max-age-s-maxage-shared-shorter-expires`,
	"an answer is fresh from when it came, not from its Date": `
		freshness-max-age-date`,
	"RFC 9111, 5.2: a number has digits alone": `
		freshness-max-age-decimal-zero freshness-max-age-decimal-five freshness-max-age-a100
		freshness-max-age-100a`,
	"a space beside the equals sign is forgiven": `
		freshness-max-age-space-before-equals freshness-max-age-space-after-equals`,
	"RFC 9111, 4.2.1: of two values the more restrictive one is allowed": `
		freshness-max-age-two-stale-fresh-sameline freshness-max-age-two-fresh-stale-sameline
		freshness-max-age-two-stale-fresh-sepline freshness-max-age-two-fresh-stale-sepline`,
	"RFC 9110, 5.6.7: it is no date, and so in the past": `
		freshness-expires-32bit freshness-expires-far-future freshness-expires-wrong-case-tz
		freshness-expires-invalid-utc freshness-expires-invalid-aest freshness-expires-invalid-2-digit-year
		freshness-expires-invalid-no-comma freshness-expires-invalid-multiple-spaces
		freshness-expires-invalid-date-dashes freshness-expires-invalid-time-periods
		freshness-expires-invalid-1-digit-hour freshness-expires-invalid-multiple-lines`,
	"RFC 9111, 5.1: an Age that is no number is ignored, of several the first counts; later tests have it so": `
		age-parse-nonnumeric age-parse-negative age-parse-float age-parse-prefix-twoline age-parse-dup-0
		age-parse-dup-0-twoline age-parse-dup-old age-parse-parameter age-parse-numeric-parameter`,
	"RFC 9111, 3.2: a 304 replaces the fields of the answer; these tests were dropped or turned since": `
		304-etag-update-response-Content-Encoding 304-etag-update-response-Content-MD5
		304-etag-update-response-Content-Range 304-etag-update-response-ETag`,
	"a client's own conditions are passed on, and not answered": `
		conditional-etag-strong-respond conditional-304-etag conditional-etag-precedence
		conditional-etag-strong-respond-obs-text conditional-etag-quoted-respond-unquoted
		conditional-etag-unquoted-respond-unquoted conditional-etag-unquoted-respond-quoted
		conditional-etag-weak-respond conditional-etag-weak-respond-lowercase
		conditional-etag-weak-respond-backslash conditional-etag-weak-respond-omit-slash
		conditional-etag-strong-respond-multiple-first conditional-etag-strong-respond-multiple-second
		conditional-etag-strong-respond-multiple-last conditional-etag-forward-unquoted
		conditional-lm-fresh conditional-lm-fresh-earlier conditional-lm-fresh-no-lm
		conditional-lm-fresh-rfc850`,
	"a tag is sent back as it came": `
		conditional-etag-strong-generate-unquoted`,
}

// A cacheResult is what came of a test.
type cacheResult struct {
	Group string `json:"group"`
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Why   string `json:"why"` // it doesn't pass; empty: it does
}

// TestHTTPCacheTests runs the groups of the HTTP cache tests that are about freshness, parsing and
// conditions. Each test passes, or is named with the reason.
func TestHTTPCacheTests(t *testing.T) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s; make setup installs it", program)
		}
	}
	dir := unpackedTests(t)
	site := freeAddress(t)
	_, port, err := net.SplitHostPort(site)
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), "node", "server/server.mjs")
	server.Dir = dir
	server.Env = append(os.Environ(),
		"npm_config_protocol=http", "npm_config_port="+port, "npm_config_pidfile="+filepath.Join(dir, "pid"))
	start(t, server, site)
	proxy := filepath.Join(t.TempDir(), "cacheproxy")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", proxy, "./cacheproxy").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cache := freeAddress(t)
	start(t, exec.CommandContext(t.Context(), proxy, "-listen", cache, "-site", "http://"+site), cache)

	why := map[string]string{}
	for reason, ids := range cacheDifferences {
		for _, id := range strings.Fields(ids) {
			why[id] = reason
		}
	}
	passed := map[string]int{}
	all := map[string]int{}
	for _, r := range runCacheTests(t, dir, "http://"+cache) {
		_, isNamed := why[r.ID]
		all[r.Group]++
		switch {
		case r.Why == "":
			passed[r.Group]++
			if isNamed {
				t.Errorf("%s passes, and is named as one that doesn't", r.ID)
			}
		case !isNamed:
			t.Errorf("%s (%s): %s", r.ID, r.Kind, r.Why)
		}
		delete(why, r.ID)
	}
	for id := range why {
		t.Errorf("%s is named, and wasn't run", id)
	}
	t.Logf("passed %v of %v", passed, all)
}

// unpackedTests returns a folder with the package, and run.mjs in it.
func unpackedTests(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "npm", "pack", "--silent", cacheTests)
	cmd.Dir = dir
	name, err := cmd.Output()
	if err != nil {
		t.Fatalf("npm pack %s: %v", cacheTests, err)
	}
	packed, err := os.ReadFile(filepath.Join(dir, strings.TrimSpace(string(name))))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(packed)
	if got := base64.StdEncoding.EncodeToString(sum[:]); got != cacheTestsSum {
		t.Fatalf("the package has the checksum %s", got)
	}
	unpack(t, packed, dir)
	dir = filepath.Join(dir, "package")
	script, err := os.ReadFile("testdata/cachetests/run.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "run.mjs"), script, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// unpack writes the files of a package into dir.
func unpack(t *testing.T, packed []byte, dir string) {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(unzipped)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(header.Name) {
			t.Fatalf("the package has a file %s", header.Name)
		}
		path := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// freeAddress returns one on which nothing listens. Another program may take it, so it is asked for
// right before its use.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// start starts a server for the time of a test, and waits until it listens.
func start(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 600 {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%v doesn't listen on %s", cmd, address)
}

// runCacheTests runs the tests against the cache at an URL.
func runCacheTests(t *testing.T, dir, base string) (results []cacheResult) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "run.mjs", base)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		var r cacheResult
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(fmt.Errorf("%w: %s", err, line))
		}
		results = append(results, r)
	}
	return results
}
