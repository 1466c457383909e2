package promises_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// BenchmarkClientTimeout measures a request of an http.Client with a Timeout, on loopback.
func BenchmarkClientTimeout(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	plain := everything(b, base)
	plain.Budget, plain.Evidence = nil, nil
	for name, rt := range map[string]http.RoundTripper{"bare": base, "plain": mustNew(b, plain), "callback": mustNew(b, everything(b, base))} {
		b.Run(name, func(b *testing.B) {
			client := &http.Client{Transport: rt, Timeout: time.Minute}
			b.ReportAllocs()
			for b.Loop() {
				resp, err := client.Get(server.URL)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
}
