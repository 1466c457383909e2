//go:build unix

package promises_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// typical answers at once, as a usual server does.
type typical struct{}

func (typical) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Request: req, Body: io.NopCloser(strings.NewReader("hello")), Header: typicalHeader}
	if strings.HasSuffix(req.URL.Path, "/robots.txt") {
		resp.Body = io.NopCloser(strings.NewReader("User-agent: *\nDisallow: /private\n"))
	}
	return resp, nil
}

var typicalHeader = http.Header{
	"Content-Type": {"text/html; charset=utf-8"}, "Date": {"Sat, 21 Nov 2026 03:04:05 GMT"},
}

// A counter counts what is written to it.
type counter struct{ bytes int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}

// mostBytes are written of a request that nothing happens to, and a quarter more in a chained
// or a signed log.
const mostBytes = 900

func TestLogOfARequestIsShort(t *testing.T) {
	for name, logCfg := range map[string]evidence.LogConfig{
		"plain": {}, "chained": {Chained: true}, "signed": {Signed: &evidence.SignConfig{Key: signingKey, Origin: "example.com/crawler"}},
	} {
		var out counter
		log := logtest.New(t, &out, logCfg)
		cfg := everything(t, typical{})
		cfg.Evidence = log
		transport, req, buf := mustNew(t, cfg), pageRequest(t, true), make([]byte, 512)
		roundTrip(t, transport, req, buf)
		if err := log.Flush(); err != nil {
			t.Fatal(err)
		}
		const n = 1000
		before := out.bytes
		for range n {
			roundTrip(t, transport, req, buf)
		}
		if err := log.Flush(); err != nil {
			t.Fatal(err)
		}
		most := int64(mostBytes)
		if logCfg != (evidence.LogConfig{}) {
			most = most * 5 / 4
		}
		each := (out.bytes - before) / n
		t.Logf("%s: %d bytes a request", name, each)
		if each > most {
			t.Errorf("%s: %d bytes a request, want %d at most", name, each, most)
		}
	}
}

// BenchmarkEvidence measures what the records of a request cost: subtract none.
func BenchmarkEvidence(b *testing.B) {
	for _, c := range []struct {
		name string
		sink evidence.Evidence
	}{
		{"none", nil},
		{"plain", evidence.JSONLines(io.Discard)},
		{"chained", logtest.New(b, io.Discard, evidence.LogConfig{Chained: true})},
		{"signed", logtest.New(b, io.Discard, evidence.LogConfig{Signed: &evidence.SignConfig{Key: signingKey, Origin: "example.com/crawler"}})},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := everything(b, typical{})
			cfg.Evidence = c.sink
			transport, req, buf := mustNew(b, cfg), pageRequest(b, true), make([]byte, 512)
			roundTrip(b, transport, req, buf)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				roundTrip(b, transport, req, buf)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}
