package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/internal/browsertest"
	"github.com/go-politeness/politeness/internal/localsite"
	"github.com/go-politeness/politeness/publicnet"
)

const agent = "CommandTest/1.0 (+https://example.com/bot; bot@example.com)"

// binary is the command, as a user has it.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "politeness-command")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "politeness")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	status := 1
	if err := build.Run(); err == nil {
		status = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(status)
}

// A result is what a run of the command has left.
type result struct {
	out, errs string
	status    int
}

// prepare returns a run of the command that nothing of this machine's environment changes.
func prepare(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "SystemRoot=" + os.Getenv("SystemRoot")}, env...)
	return cmd
}

// polite runs the command to its end.
func polite(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := prepare(t, env, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// expect checks an exit status and what was said; an empty text stands for anything.
func (r result) expect(t *testing.T, status int, out, errs string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.out, out) || !strings.Contains(r.errs, errs) {
		t.Errorf("status %d, want %d; wanted %q and %q\n%s\n%s", r.status, status, out, errs, r.out, r.errs)
	}
}

func TestHelpNamesEveryFlag(t *testing.T) {
	polite(t, nil).expect(t, 2, "", "Usage: politeness COMMAND")
	polite(t, nil, "help").expect(t, 0, "Usage: politeness COMMAND", "")
	polite(t, nil, "-h").expect(t, 0, "Usage: politeness COMMAND", "")
	defined := regexp.MustCompile(`flags\.(?:Bool|String|Int|Duration|Func)?(?:Var)?\((?:&[\w.]+, )?"([\w-]+)"`)
	shared, err := os.ReadFile("policy.go")
	if err != nil {
		t.Fatal(err)
	}
	for name := range commands {
		help := polite(t, nil, name, "-h")
		help.expect(t, 0, "Usage: politeness "+name, "")
		if polite(t, nil, "help", name) != help {
			t.Errorf("help %s is another text", name)
		}
		for line := range strings.Lines(help.out) {
			line = strings.TrimSuffix(line, "\n")
			if len(line) > 80 || strings.Contains(line, "\t") {
				t.Errorf("%s -h: %q", name, line)
			}
		}
		if !strings.Contains(help.out, "\n  politeness "+name+" ") {
			t.Errorf("%s -h has no example", name)
		}
		source, err := os.ReadFile(name + ".go")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "p.register(flags)") {
			source = append(source, shared...)
		}
		found := defined.FindAllStringSubmatch(string(source), -1)
		if len(found) == 0 {
			t.Errorf("%s has no flags", name)
		}
		for _, flag := range found {
			if !regexp.MustCompile(`(?m)[ ]-` + flag[1] + `[ ,:;\n]`).MatchString(help.out) {
				t.Errorf("%s -h doesn't explain -%s", name, flag[1])
			}
		}
	}
}

func TestWrongUsage(t *testing.T) {
	long := filepath.Join(t.TempDir(), "urls.txt")
	if err := os.WriteFile(long, []byte("https://a/\nhttps://a/"+strings.Repeat("x", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"nonsense":                                                     `there is no command "nonsense"`,
		"check":                                                        "URL is missing\nsee: politeness check -h",
		"check -nonsense":                                              "-nonsense",
		"check https://example.com -json":                              "flags go before URL",
		"check -purpose fun https://example.com":                       "it is none of train, ground, search",
		"lint":                                                         "FILE or URL is missing",
		"lint no-such-file":                                            "no-such-file",
		"audit":                                                        "LOG is missing",
		"audit no-such-file":                                           "no-such-file",
		"audit main.go":                                                "no line of main.go is a record of evidence",
		"audit testdata/package.jsonl":                                 "no line of testdata/package.jsonl is a record of evidence",
		"audit testdata/typed.jsonl":                                   "no line of testdata/typed.jsonl is a record of evidence",
		"lint example.com":                                             "a URL begins with https:// or http://",
		"lint HTTP://127.0.0.1:25":                                     "port 25 belongs to no web server",
		"audit -html x.html main.go crawl.go":                          "-html draws one log, not 2",
		"crawl https://example.com/":                                   "-agent is missing: name your crawler",
		"crawl -agent MyBot/1.0 https://example.com/":                  "has no contact",
		"crawl -agent a@b.example -follow x https://a/":                "-follow is none, host, name, site or all",
		"crawl -agent a@b.example -preset x https://a/":                "only audit, bulk, conservative, responsive",
		"crawl -agent a@b.example -delay -1s https://a/":               "-delay is negative",
		"crawl -agent a@b.example -delay 0 https://a/":                 "each site needs a pause between requests",
		"crawl -agent a@b.example -delay 0s https://a/":                "-delay 10ms",
		"proxy -agent X/1(a@b.example) -delay 0":                       "each site needs a pause between requests",
		"crawl -agent a@b.example -per-host 0 https://a/":              "-per-host is 0: nothing could be fetched then",
		"crawl -agent a@b.example -pages 0 https://a/":                 "-pages is 0: leave it out",
		"crawl -agent a@b.example -limit-rate 0 https://a/":            "bytes a second, as in 5000, 200k or 1.5m",
		"crawl -agent a@b.example -limit-rate fast https://a/":         "bytes a second",
		"crawl -agent a@b.example -include [ https://a/":               "missing closing ]",
		"crawl example.com /b https://a/":                              "no URL: example.com (a URL begins with https:// or http://)\n  no URL: /b",
		"crawl -agent a@b.example -urls no-such-file":                  "no-such-file",
		"crawl -agent a@b.example -urls " + long:                       long + ":2: the line is too long for a URL",
		"crawl -agent a@b.example -o x -evidence ./x https://a/":       "-evidence needs its own file",
		"crawl -agent a@b.example -failed x -evidence x -n https://a/": "-evidence needs its own file",
		"crawl -agent a@b.example -urls /dev/null":                     "there is no URL in the list",
		"crawl -agent a@b.example -delay 100 https://a/":               "-delay: write it with a unit, as in 500ms",
		"check 127.0.0.1:8080":                                         "",
		"crawl -agent a@b.example -depth -1 https://a/":                "-depth is negative",
		"crawl -agent a@b.example -tries 0 https://a/":                 "-tries is at least 1",
		"crawl -agent a@b.example ftp://example.com":                   "ftp",
		"proxy x": `"x" is too much`,
		"proxy":   "-agent is missing",
		"proxy -agent X/1(a@b.example) -listen 0.0.0.0:0": "-remote",
	} {
		polite(t, nil, strings.Fields(args)...).expect(t, 2, "", want)
	}
	polite(t, []string{"MAX_PAGES=many", "USER_AGENT=" + agent}, "crawl", "https://example.com/").expect(t, 2, "", "MAX_PAGES")
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 7*time.Second)
	robots := "User-agent: *\nContent-Signal: ai-train=no, search=yes\nDisallow: /private\nCrawl-delay: 7\nUser-agent: evil\nDisallow: /\n"
	signals := localsite.New(t, 0)
	signals.Handle("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, robots) })

	r := polite(t, nil, "check", s.URL+"/a")
	r.expect(t, 0, "yes   no rule of robots.txt matches", "")
	r.expect(t, 0, "one request every 7 s", "")
	if !regexp.MustCompile(`from  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, in [5-7]s`).MatchString(r.out) {
		t.Errorf("from when isn't said:\n%s", r.out)
	}
	polite(t, nil, "check", s.URL+"/a", s.URL+"/private/diary").expect(t, 1, `no    by line 2, "Disallow: /private", for "*"`, "")
	polite(t, nil, "check", signals.URL+"/a").expect(t, 0, "use   train refused (Content-Signal, line 2), search granted", "")
	polite(t, nil, "check", "-purpose", "train", signals.URL+"/a").expect(t, 1, "no ", "")
	polite(t, nil, "check", "-agent", "Evil/1.0 (evil@example.com)", signals.URL+"/a").expect(t, 1, `for "evil"`, "")
	polite(t, []string{"USER_AGENT=Evil/1.0 (evil@example.com)"}, "check", signals.URL+"/a").expect(t, 1, `for "evil"`, "")
	polite(t, []string{"USER_AGENT=Evil/1.0 (evil@example.com)"}, "check", "-agent", agent, signals.URL+"/a").expect(t, 0, "yes", "")
	if r := polite(t, nil, "check", s.URL, s.URL+"/a#b", signals.URL); strings.Count(r.out, "one request every 7 s") != 3 {
		t.Error("the pace isn't said of each URL:", r.out)
	}
	polite(t, nil, "check", "ht tp://example.com").expect(t, 2, "?", "")
	closed := localsite.Closed(t)
	polite(t, nil, "check", closed).expect(t, 2, "?     robots.txt can't be fetched: network: dial tcp 127.0.0.1:", "")
	polite(t, nil, "check", closed).expect(t, 2, "; ask again at ", "")
	polite(t, nil, "check", "-json", closed).expect(t, 2, `"askAgain":"2`, "")
	polite(t, nil, "check", closed, s.URL+"/private/diary").expect(t, 2, "no ", "")

	r = polite(t, nil, "check", "-json", signals.URL+"/a", signals.URL+"/private/")
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var first, second answer
	if r.status != 1 || len(lines) != 2 || json.Unmarshal([]byte(lines[0]), &first) != nil || json.Unmarshal([]byte(lines[1]), &second) != nil {
		t.Fatalf("status %d: %s", r.status, r.out)
	}
	if !first.Allowed || first.CrawlDelay != 7 || first.Preferences["train"] != "refused" || second.Allowed || second.Line != 3 || second.Rule != "Disallow: /private" {
		t.Errorf("%+v\n%+v", first, second)
	}
	for _, site := range []*localsite.Site{s, signals} {
		if pages := len(site.Visits()) - len(site.Visits("/robots.txt")); pages > 0 {
			t.Errorf("check has fetched %d pages", pages)
		}
	}
	if strings.Contains(r.out, "\x1b[") {
		t.Error("colours, and no terminal")
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.txt"), filepath.Join(dir, "bad.txt")
	for name, text := range map[string]string{good: "User-agent: *\nDisallow: /private\n", bad: "User-agent: *\nDisalow: /\nNonsense\x1b[2J: x\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	polite(t, nil, "lint", good).expect(t, 0, "", "")
	r := polite(t, nil, "lint", good, bad)
	r.expect(t, 1, bad+":2: misspelled-key: ", "")
	if strings.Contains(r.out, "\x1b") {
		t.Errorf("%q", r.out)
	}
	s := localsite.New(t, 0)
	polite(t, nil, "lint", s.URL+"/some/page").expect(t, 0, "", "")
	if n := len(s.Visits()); n != 1 {
		t.Errorf("%d requests", n)
	}
	cmd := prepare(t, nil, "lint", "-")
	cmd.Stdin = strings.NewReader("Disallow: /\n")
	if out, err := cmd.Output(); err == nil || !strings.Contains(string(out), "-:1: rule-before-agent") {
		t.Errorf("%s, %v", out, err)
	}
}

// crawled returns the pages that a crawl has written, by path.
func crawled(t *testing.T, r result, site string) map[string]line {
	t.Helper()
	pages := make(map[string]line)
	for text := range strings.Lines(r.out) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		path := strings.TrimPrefix(l.URL, site)
		if _, twice := pages[path]; twice {
			t.Errorf("%s is there twice", path)
		}
		pages[path] = l
	}
	return pages
}

func TestCrawlAndAudit(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	s.Handle("/sitemap.xml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<urlset><url><loc>%s/listed</loc></url><url><loc>http://other.example/</loc></url></urlset>", s.URL)
	})
	dir := t.TempDir()
	log, out, html := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "pages.jsonl"), filepath.Join(dir, "report.html")
	args := []string{"crawl", "-agent", agent, "-delay", "50ms", "-evidence", log, "-state", filepath.Join(dir, "state")}
	r := polite(t, nil, append(args, "-sitemaps", "-body", s.URL+"/")...)
	r.expect(t, 0, "", "lists 1 page of other.example, left out")
	pages := crawled(t, r, s.URL)
	for _, path := range []string{"/", "/a", "/b", "/c", "/d", "/moved", "/busy", "/listed"} {
		if l := pages[path]; l.Status != http.StatusOK || l.Bytes == 0 || l.Body == nil || len(*l.Body) != l.Bytes {
			t.Errorf("%s: %+v", path, l)
		}
	}
	if pages["/moved"].FinalURL != s.URL+"/e" || pages["/a"].FinalURL != "" || len(pages["/"].Links) != len(localsite.Paths) {
		t.Errorf("%+v", pages)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	polite(t, nil, "audit", "-html", html, log).expect(t, 0, "Proved: every promise was kept", "")
	if text, err := os.ReadFile(html); err != nil || !bytes.Contains(text, []byte("</html>")) {
		t.Errorf("no page is drawn: %v", err)
	}
	// A second run appends to the same log. Its robots.txt is that of the first, whose fetch the log shows.
	polite(t, nil, append(args, "-follow", "none", "-q", "-o", out, s.URL+"/a", s.URL+"/b")...).expect(t, 0, "", "")
	if text, err := os.ReadFile(out); err != nil || bytes.Count(text, []byte("\n")) != 2 {
		t.Errorf("%s, %v", text, err)
	}
	for _, name := range []string{log, out} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	polite(t, nil, "audit", log).expect(t, 0, "Proved: every promise was kept", "")
	var report struct{ Lines int }
	if r := polite(t, nil, "audit", "-json", log); r.status != 0 || json.Unmarshal([]byte(r.out), &report) != nil || report.Lines == 0 {
		t.Errorf("status %d, %s", r.status, r.out)
	}
	// A log that claims a gap which wasn't kept is broken, and one that is none can't be read.
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(dir, "forged.jsonl")
	if err := os.WriteFile(forged, bytes.Replace(text, []byte(`"delay":0.05`), []byte(`"delay":9.05`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	polite(t, nil, "audit", forged).expect(t, 1, "", "")
}

func TestCrawlOnlySaysWhatItWouldDo(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	r := polite(t, []string{"USER_AGENT=" + agent, "MAX_PAGES=7"}, "crawl", "-n", "-preset", "audit", "-delay", "3s", s.URL+"/", s.URL+"/private/x")
	r.expect(t, 0, "as "+agent, "")
	r.expect(t, 0, "3s apart", "")
	r.expect(t, 0, "7 pages at most", "")
	r.expect(t, 0, `no    by line 2, "Disallow: /private"`, "")
	if n := len(s.Visits()); n != 1 {
		t.Errorf("%d requests", n)
	}
	polite(t, nil, "crawl", "-agent", agent, "-n", s.URL+"/private/x").expect(t, 1, "no ", "")
	state := filepath.Join(t.TempDir(), "state")
	polite(t, nil, "crawl", "-agent", agent, "-n", "-state", state, s.URL+"/").expect(t, 0, "yes ", "")
	if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has made the directory of -state: %v", err)
	}
}

// A literal address is meant; what a name or a link leads to isn't.
func TestCrawlStaysOutOfTheOwnNetworks(t *testing.T) {
	t.Parallel()
	other := localsite.New(t, 0)
	s := localsite.New(t, 0)
	s.Handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="%s/a">other</a><a href="/hop">hop</a><a href="http://example.com:25/">mail</a>`, other.URL)
	})
	s.Handle("/hop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/b", http.StatusFound) })
	r := polite(t, nil, "crawl", "-agent", agent, "-delay", "10ms", "-follow", "all", s.URL+"/")
	if pages := crawled(t, r, s.URL); r.status != 0 || len(pages) != 1 {
		t.Errorf("status %d, pages %v", r.status, pages)
	}
	if n := len(other.Visits()); n > 0 {
		t.Errorf("the other site saw %d requests", n)
	}
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	polite(t, nil, "check", "http://localhost.localdomain:"+port+"/").expect(t, 2, "? ", "")
	polite(t, nil, "check", "http://localhost:"+port+"/").expect(t, 0, "yes ", "")
	polite(t, nil, "check", "http://127.0.0.1:22/").expect(t, 1, "port 22 belongs to no web server", "")
}

func TestNothingOfAServerActsOnTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\u202eevil\u009b2J"
	s := localsite.New(t, 0)
	s.Handle("GET /robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "User-agent: *\nNonsense%[1]s\x1b[2J: x\nDisallow: /x%[1]s\x1b[2J\nLicense: https://example.com/%[1]s\nSitemap: http://127.0.0.1/%[1]s.xml\n", evil)
	})
	s.Handle("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; x="+evil)
		fmt.Fprintf(w, "<title>%s\x1b[2J</title><a href='/x%s'>", evil, evil)
	})
	for _, args := range [][]string{
		{"check", s.URL + "/", s.URL + "/x" + url.PathEscape(evil) + "%1b[2J"},
		{"check", "-json", s.URL + "/", s.URL + "/x" + url.PathEscape(evil) + "%1b[2J"},
		{"lint", s.URL},
		{"crawl", "-agent", agent, "-delay", "10ms", "-sitemaps", "-body", s.URL + "/"},
		{"crawl", "-agent", agent, "-n", s.URL + "/"},
	} {
		r := polite(t, nil, args...)
		if strings.ContainsAny(r.out+r.errs, "\x1b\u202e\u009b") || r.out+r.errs == "" {
			t.Errorf("%v: %q, %q", args, r.out, r.errs)
		}
	}
}

// lines passes on what is written to it, as long as somebody wants it.
type lines struct {
	got  chan string
	once sync.Once
}

func (l *lines) Write(p []byte) (int, error) {
	l.once.Do(func() { l.got <- string(p) })
	return len(p), nil
}

// startProxy runs the proxy until the test ends, and returns its URL and what ends it.
func startProxy(t *testing.T, env []string, args ...string) (proxy string, end func() int) {
	t.Helper()
	_, proxy, end = launchProxy(t, env, args...)
	return proxy, end
}

// launchProxy is startProxy with the process.
func launchProxy(t *testing.T, env []string, args ...string) (cmd *exec.Cmd, proxy string, end func() int) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no signal asks a process to end")
	}
	cmd = prepare(t, env, append([]string{"proxy", "-agent", agent, "-listen", "127.0.0.1:0"}, args...)...)
	cmd.Dir = t.TempDir() // for what it writes
	said := &lines{got: make(chan string, 1)}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // its status is asked below
	}()
	end = sync.OnceValue(func() int {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() { end() })
	select {
	case first := <-said.got:
		first, _, _ = strings.Cut(first, "\n")
		_, proxy, _ = strings.Cut(first, "http_proxy=")
	case <-exited:
		t.Fatal(cmd.ProcessState)
	}
	if proxy == "" {
		t.Fatal("the proxy doesn't say where it is")
	}
	return cmd, proxy, end
}

// https sites, through the proxy with an authority: the client crawls all at once, and the site's
// own log has nothing to complain of.
func TestProxyMakesHTTPSClientsPolite(t *testing.T) {
	t.Parallel()
	const delay = 500 * time.Millisecond
	s := localsite.NewTLS(t, delay)
	dir := t.TempDir()
	log, ca := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "ca")
	proxy, end := startProxy(t, []string{"SSL_CERT_FILE=" + s.Certificate}, "-private", "-ca", ca, "-evidence", log)
	if info, err := os.Stat(filepath.Join(ca, "authority-key.pem")); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the key: %v, %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(ca, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(text)
	address, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	through := &http.Transport{Proxy: http.ProxyURL(address), TLSClientConfig: &tls.Config{RootCAs: trust}}
	client := &http.Client{Transport: through}
	var group sync.WaitGroup
	for _, path := range append([]string{"/"}, localsite.Paths...) {
		group.Go(func() {
			resp, err := client.Get(s.URL + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			refused := strings.HasPrefix(resp.Header.Get("Proxy-Status"), "politeness")
			if want := path == "/private/diary" || path == "/trap"; refused != want {
				t.Errorf("%s: %s, by the proxy: %t", path, resp.Status, refused)
			}
		})
	}
	group.Wait()
	through.CloseIdleConnections()
	if status := end(); status != 0 {
		t.Errorf("the proxy ends with %d", status)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	if n := len(s.Visits()); n < 8 {
		t.Errorf("%d requests", n)
	}
	polite(t, nil, "audit", log).expect(t, 0, "delays kept", "")
}

// Whatever encodings a program accepts, the proxy reads pages for what they state about their use.
func TestProxyReadsPagesForReservations(t *testing.T) {
	t.Parallel()
	const page = `<html><head><meta name="robots" content="noai"></head><body>text</body></html>`
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			http.NotFound(w, r)
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			zip := gzip.NewWriter(w)
			_, _ = io.WriteString(zip, page)
			_ = zip.Close()
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, page)
		}
	}))
	defer site.Close()
	for _, purpose := range []string{"train", "search"} {
		proxy, _ := startProxy(t, nil, "-private", "-purpose", purpose)
		address, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address), DisableCompression: true}}
		for _, accepted := range []string{"", "gzip, deflate"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, site.URL+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept-Encoding", accepted)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			want := http.StatusOK
			if purpose == "train" { // nothing was passed on, so the refusal is an answer in words
				want = http.StatusForbidden
			}
			if err != nil || len(body) == 0 || resp.StatusCode != want {
				t.Errorf("for %s, accepting %q: %d, read %q, %v", purpose, accepted, resp.StatusCode, body, err)
			}
		}
	}
}

// What keeps a request from a private address also says what its user can do.
func TestPrivateAddressesSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := localsite.New(t, 0)
	proxy, _ := startProxy(t, nil)
	address, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address)}}).Get(s.URL + "/a")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "-private") {
		t.Errorf("%s: %s, %v", resp.Status, body, err)
	}
	reach := reachOf([]string{"http://example.com/"})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err = reach.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, publicnet.ErrPrivate) || !strings.Contains(err.Error(), "literally") {
		t.Errorf("%v", err)
	}
}

func TestProxyWithoutAuthorityOpensNoTunnels(t *testing.T) {
	t.Parallel()
	s := localsite.NewTLS(t, 0)
	proxy, _ := startProxy(t, nil, "-private")
	address, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(address)}}
	if resp, err := client.Get(s.URL + "/a"); err == nil {
		resp.Body.Close()
		t.Errorf("%s", resp.Status)
	}
	if len(s.Visits()) > 0 {
		t.Error("the site was reached")
	}
}

// A browser asks for a page of an https site, and gets what robots.txt allows. Without
// POLITENESS_BROWSER=1, which make sets, this is left to those that have one.
func TestBrowserThroughTheProxy(t *testing.T) {
	t.Parallel()
	browser := browsertest.Find(t)
	if browser == "" {
		return
	}
	s := localsite.NewTLS(t, 0)
	ca := filepath.Join(t.TempDir(), "ca")
	proxy, _ := startProxy(t, []string{"SSL_CERT_FILE=" + s.Certificate}, "-private", "-ca", ca)
	text, err := os.ReadFile(filepath.Join(ca, "authority.pem"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	trusted := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	for path, want := range map[string]string{"/a": "Page /a", "/private/diary": "Disallow: /private"} {
		dom := browsertest.Look(t, browser, s.URL+path, "", "--proxy-server="+proxy, "--proxy-bypass-list=<-loopback>",
			"--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(trusted[:]))
		if !strings.Contains(dom, want) {
			t.Errorf("%s:\n%s", path, dom)
		}
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
}

// TestWgetThroughTheProxy: two of them at once, which mirror an https site and are told not to look
// at its robots.txt. On a machine without wget TestProxyMakesHTTPSClientsPolite has been through the
// same.
func TestWgetThroughTheProxy(t *testing.T) {
	t.Parallel()
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Log(err)
		return
	}
	s := localsite.NewTLS(t, 300*time.Millisecond)
	dir := t.TempDir()
	log, ca := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "ca")
	proxy, end := startProxy(t, []string{"SSL_CERT_FILE=" + s.Certificate}, "-private", "-ca", ca, "-evidence", log)
	var group sync.WaitGroup
	for i := range 2 {
		mirror := filepath.Join(dir, fmt.Sprint("mirror", i))
		group.Go(func() {
			cmd := exec.CommandContext(t.Context(), wget, "--no-config", "--recursive", "--no-host-directories", "--no-verbose",
				"--execute=robots=off", "--ca-certificate="+filepath.Join(ca, "authority.pem"), "--directory-prefix="+mirror, s.URL+"/")
			cmd.Env = []string{"https_proxy=" + proxy, "no_proxy=", "HOME=" + dir}
			said, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 8 { // some answers were 403, the proxy's
				t.Errorf("%v\n%s", err, said)
			}
			for _, page := range []string{"index.html", "a", "b", "c", "d"} {
				if _, err := os.Stat(filepath.Join(mirror, page)); err != nil {
					t.Errorf("%v\n%s", err, said)
				}
			}
		})
	}
	group.Wait()
	if status := end(); status != 0 {
		t.Errorf("the proxy ends with %d", status)
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	polite(t, nil, "audit", log).expect(t, 0, "delays kept", "")
	t.Logf("%d requests reached the site, %d violations", len(s.Visits()), len(s.Violations()))
}

// spider crawls a whole site with Scrapy as it is: all at once, no delay, no robots.txt of its own.
const spider = `
import scrapy

class Spider(scrapy.Spider):
    name = "site"

    def start_requests(self):
        yield scrapy.Request(self.site + "/")

    def parse(self, response):
        yield {"url": response.url, "status": response.status}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse)
`

// TestScrapyThroughTheProxy needs Scrapy. Without POLITENESS_SCRAPY=1, which make sets, it is left
// to those that have it: TestProxyMakesHTTPSClientsPolite has been through the same.
func TestScrapyThroughTheProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv("POLITENESS_SCRAPY") != "1" {
		return
	}
	scrapy, err := exec.LookPath("scrapy")
	if err != nil {
		t.Fatal("no scrapy; install it with: make setup")
	}
	s := localsite.NewTLS(t, time.Second)
	dir := t.TempDir()
	log, file, items := filepath.Join(dir, "log.jsonl"), filepath.Join(dir, "spider.py"), filepath.Join(dir, "items.jsonl")
	if err := os.WriteFile(file, []byte(spider), 0o600); err != nil {
		t.Fatal(err)
	}
	proxy, end := startProxy(t, []string{"SSL_CERT_FILE=" + s.Certificate}, "-private", "-ca", filepath.Join(dir, "ca"), "-evidence", log)
	cmd := exec.CommandContext(t.Context(), scrapy, "runspider", file, "-a", "site="+s.URL, "-O", items,
		"-s", "ROBOTSTXT_OBEY=False", "-s", "CONCURRENT_REQUESTS=32", "-s", "CONCURRENT_REQUESTS_PER_DOMAIN=32", "-s", "DOWNLOAD_TIMEOUT=600",
		"-s", "TELNETCONSOLE_ENABLED=False", "-s", "RETRY_TIMES=0", "-L", "INFO")
	cmd.Env = []string{"https_proxy=" + proxy, "http_proxy=" + proxy, "no_proxy=", "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if status := end(); status != 0 {
		t.Errorf("the proxy ends with %d", status)
	}
	text, err := os.ReadFile(items)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/a", "/b", "/c", "/d", "/e"} {
		if !strings.Contains(string(text), fmt.Sprintf(`{"url": %q, "status": 200}`, s.URL+path)) {
			t.Errorf("Scrapy has no %s", path)
		}
	}
	if found := s.Violations(); found != nil {
		t.Error(found)
	}
	if t.Failed() {
		t.Logf("%s\n%s", text, said)
	}
	polite(t, nil, "audit", log).expect(t, 0, "delays kept", "")
	t.Logf("%d requests reached the site, %d violations", len(s.Visits()), len(s.Violations()))
}
