package servers

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

const combined = "$DIR/combined.log"

// loggers are servers that log as they do where nothing else is configured, and compress.
var loggers = []*Server{
	{
		Name: "nginx", programs: onNginx,
		start: nginx("gzip on; gzip_min_length 1; limit_req_zone $binary_remote_addr zone=clients:1m rate=4r/s;\nlimit_req_status 429;", `
			access_log `+combined+` combined;
			location = /s001.html { return 429; }
			location = /s000.html { limit_rate 400; }`),
	},
	{
		Name: "Apache", programs: onApache,
		start: apache("LoadModule deflate_module $MODULESmod_deflate.so\nLoadModule filter_module $MODULESmod_filter.so\nLoadModule rewrite_module $MODULESmod_rewrite.so", `
			LogFormat "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"" combined
			CustomLog `+combined+` combined
			SetOutputFilter DEFLATE
			RewriteEngine On
			RewriteRule ^/s001.html$ - [R=429]`),
	},
	{
		Name: "Varnish", programs: onVarnish,
		start: func(r *instance) error {
			if err := varnish(r); err != nil {
				return err
			}
			return r.run(r.path("combined.log"), "varnishncsa", "-n", r.path("varnish"))
		},
	},
}

// TestAccessLogsOfRealServersAreCompared crawls servers that log as they do by themselves, and holds
// the evidence against their logs: as it is, with a request left out, and with a 429 that its caller
// is said not to have waited for.
func TestAccessLogsOfRealServersAreCompared(t *testing.T) {
	for _, s := range loggers {
		t.Run(s.Name, func(t *testing.T) {
			if missing := s.Missing(); len(missing) > 0 {
				t.Skipf("needs %s; make setup installs servers", strings.Join(missing, ", "))
			}
			r := launchLogger(t, s)
			log, pages := fetchAll(t, r.URL(), []string{"/", "/s000.html", "/s000-00000.html", "/s000-00001.html?q=a%20b&c=%22", "/missing", "/s001.html"})
			access := waitForLines(t, r.path("combined.log"), pages)

			var compressed bytes.Buffer
			z := gzip.NewWriter(&compressed)
			_, _ = z.Write(access)
			z.Close()
			c, err := accesslog.Compare(bytes.NewReader(log), accesslog.Options{}, &compressed)
			if err != nil || !c.OK() || c.Matched != pages || c.Unseen.N+c.Unreadable > 0 {
				t.Errorf("%v, %v\n%s", c, err, access)
			}
			lines := strings.SplitAfter(string(log), "\n")
			without := func(path string) string {
				return strings.Join(deleteLines(lines, path), "")
			}
			c, err = accesslog.Compare(strings.NewReader(without("/s000-00000.html")), accesslog.Options{}, bytes.NewReader(access))
			if err != nil || c.OK() || c.Missing.N != 1 || c.Missing.First[0].Target != "/s000-00000.html" {
				t.Errorf("without a request: %v, %v", c, err)
			}
			if s.Name == "Varnish" { // it refuses nothing here
				return
			}
			c, err = accesslog.Compare(strings.NewReader(gaveUp(t, lines)), accesslog.Options{}, bytes.NewReader(access))
			if err != nil || c.OK() || c.Left.N != 1 || c.Left.First[0].Target != "/s001.html" {
				t.Errorf("a 429 that was given up: %v, %v", c, err)
			}
		})
	}
}

// launchLogger starts a server for the time of a test, and waits until its log has a line.
func launchLogger(t *testing.T, s *Server) *instance {
	t.Helper()
	dir, err := os.MkdirTemp("", "loggers") //nolint:usetesting // t.TempDir can't be read by Apache's user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := s.launch(dir, Site{Sections: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	warmUp(t, r.URL(), r.path("combined.log"))
	return r
}

// warmUp asks for pages until the log has one: varnishncsa begins when it is ready, not with Varnish.
func warmUp(t *testing.T, root, log string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, root, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if text, err := os.ReadFile(log); err == nil && len(text) > 0 {
			return
		}
	}
	t.Fatal("no access log")
}

// fetchAll fetches paths one after the other, and returns the evidence, and the number of requests
// with that for robots.txt.
func fetchAll(t *testing.T, root string, paths []string) (log []byte, n int) {
	t.Helper()
	urls := make([]string, len(paths))
	for i, p := range paths {
		urls[i] = strings.TrimSuffix(root, "/") + p
	}
	return fetchOver(t, nil, urls...), len(paths) + 1
}

// fetchOver fetches URLs over base one after the other, and returns the evidence.
func fetchOver(t *testing.T, base http.RoundTripper, urls ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	kept := evidence.JSONLines(&out)
	polite, err := politeness.New(politeness.Config{
		UserAgent: userAgent, Evidence: kept, Base: base,
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: polite}
	for _, u := range urls {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// waitForLines returns the access log once it has n lines: servers write them a little later.
func waitForLines(t *testing.T, name string, n int) []byte {
	t.Helper()
	var text []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		text, _ = os.ReadFile(name)
		if bytes.Count(text, []byte("ServersBot")) >= n {
			return text
		}
	}
	t.Fatalf("fewer than %d lines:\n%s", n, text)
	return nil
}

func deleteLines(lines []string, path string) (kept []string) {
	for _, l := range lines {
		if !strings.Contains(l, path) {
			kept = append(kept, l)
		}
	}
	return kept
}

// gaveUp makes of the end with 429 one whose caller had left.
func gaveUp(t *testing.T, lines []string) string {
	t.Helper()
	var out strings.Builder
	for _, l := range lines {
		var e evidence.LogLine
		if json.Unmarshal([]byte(l), &e) == nil && e.Type == evidence.Fetched && e.Status == 429 {
			e.Type, e.Allowed, e.Status, e.Bytes, e.Left, e.Err = evidence.Failed, false, 0, 0, true, "context canceled"
			l = fmt.Sprintf("%s\n", e.AppendJSON(nil))
		}
		out.WriteString(l)
	}
	return out.String()
}
