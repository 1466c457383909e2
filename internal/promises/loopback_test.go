//go:build unix

package promises_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// BenchmarkLoopback measures a request over a warm connection on loopback: bare, with robots.txt and
// turns alone, with every stage on and a callback for evidence, and with a log. It gives ns/op, and
// the CPU time of client and server together, which a busy machine moves less.
func BenchmarkLoopback(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	plain, callback, log := everything(b, base), everything(b, base), everything(b, base)
	plain.Budget, plain.Evidence = nil, nil
	log.Evidence = evidence.JSONLines(io.Discard)
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"bare", base},
		{"plain", mustNew(b, plain)},
		{"callback", mustNew(b, callback)},
		{"log", mustNew(b, log)},
	} {
		b.Run(c.name, func(b *testing.B) {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, server.URL+"/page", http.NoBody)
			if err != nil {
				b.Fatal(err)
			}
			buf := make([]byte, 512)
			roundTrip(b, c.rt, req, buf)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				roundTrip(b, c.rt, req, buf)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the CPU time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
