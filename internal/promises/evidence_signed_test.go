package promises_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/evidence/audit/accesslog"
	"github.com/go-politeness/politeness/evidence/audit/bundle"
	"github.com/go-politeness/politeness/politenesstest"
)

var signingKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))

// An accessLogger writes what each site answers, in Apache's combined format, as the site would.
type accessLogger struct {
	base http.RoundTripper
	mu   sync.Mutex
	logs map[string]*strings.Builder // by host
}

func (l *accessLogger) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := l.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[req.URL.Host]
	if log == nil {
		log = new(strings.Builder)
		l.logs[req.URL.Host] = log
	}
	clock := start.Add(3 * time.Hour) // wrong by so much
	fmt.Fprintf(log, "192.0.2.1 - - [%s] \"%s %s HTTP/1.1\" %d %d \"-\" %q\n",
		clock.Format("02/Jan/2006:15:04:05 -0700"), req.Method, req.URL.RequestURI(), resp.StatusCode, len(body), req.UserAgent())
	return resp, nil
}

// TestAStrangerCanCheck crawls three sites in several runs, and is then the owner of one of them:
// with the bundle, the checkpoint that was published, and the site's own log.
func TestAStrangerCanCheck(t *testing.T) {
	name := filepath.Join(t.TempDir(), "crawl.jsonl")
	var published []byte
	logger := &accessLogger{logs: map[string]*strings.Builder{}}
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		for _, host := range []string{"a.example", "b.example", "secret.example"} {
			site := web.Site("https://" + host).Robots("User-agent: *\nDisallow: /private\nCrawl-delay: 2\n").Latency(300 * time.Millisecond)
			for i := range 30 {
				site.Page(fmt.Sprintf("/%d", i), strings.Repeat("x", i))
			}
		}
		logger.base = web
		for run := range 3 {
			log, err := evidence.OpenFile(name, evidence.LogConfig{Signed: &evidence.SignConfig{
				Key:     signingKey,
				Origin:  "example.com/crawler",
				Publish: func(c []byte) { published = c },
			}})
			if err != nil {
				t.Fatal(err)
			}
			transport, err := politeness.New(politeness.Config{
				UserAgent: "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", Base: logger, Evidence: log,
			})
			if err != nil {
				t.Fatal(err)
			}
			client := &http.Client{Transport: transport}
			var wg sync.WaitGroup
			for _, host := range []string{"a.example", "b.example", "secret.example"} {
				wg.Go(func() {
					for i := range 10 {
						for _, path := range []string{fmt.Sprintf("/%d", 10*run+i), "/private"} {
							req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+host+path, nil)
							if err != nil {
								t.Error(err)
								return
							}
							if resp, err := client.Do(req); err == nil { // /private is refused
								_, _ = io.Copy(io.Discard, resp.Body)
								resp.Body.Close()
							}
						}
					}
				})
			}
			wg.Wait()
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(24 * time.Hour)
		}
		// A request beside the Transport, by the same crawler.
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://b.example/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "ExampleBot/1.0")
		resp, err := logger.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	})
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	key, err := note.NewEd25519VerifierKey("example.com/crawler", signingKey.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	trust := audit.Trust{Key: key, Checkpoints: [][]byte{published}}

	report, err := trust.Check(bytes.NewReader(log))
	if err != nil || !report.OK() || report.Signed.Older != 1 || report.Signed.After != 0 {
		t.Errorf("the whole log: %v, %v", report, err)
	}
	var text bytes.Buffer
	if _, err := bundle.Extract(&text, bytes.NewReader(log), trust, "a.example"); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"b.example", "secret"} {
		if bytes.Contains(text.Bytes(), []byte(secret)) {
			t.Errorf("the bundle names %s", secret)
		}
	}
	evidenceOfA := text.Bytes()
	b, err := bundle.Verify(bytes.NewReader(evidenceOfA), trust)
	if err != nil || !b.Report.OK() || b.Signed.Key == "" || b.Report.Hosts[0].Starts < 33 {
		t.Fatalf("the bundle: %+v, %v", b, err)
	}

	// The bundle is evidence as well, and the site has seen nothing else.
	c, err := accesslog.Compare(bytes.NewReader(evidenceOfA), accesslog.Options{}, strings.NewReader(logger.logs["a.example"].String()))
	if err != nil || !c.OK() || c.Matched != b.Report.Hosts[0].Starts || c.Unseen.N != 0 || c.Offset.Round(10*time.Second) != 3*time.Hour {
		t.Errorf("the site's own log: %v, %v", c, err)
	}
	if c.Closer != nil || b.Report.Hosts[0].MinGap < time.Second {
		t.Errorf("the site saw %v", c)
	}
	// The other one has seen the request that isn't in the evidence.
	c, err = accesslog.Compare(bytes.NewReader(log), accesslog.Options{Host: "b.example"}, strings.NewReader(logger.logs["b.example"].String()))
	if err != nil || c.OK() || c.Missing.N+c.Outside.N != 1 {
		t.Errorf("the other site's log: %v, %v", c, err)
	}
}
