package promises_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
)

// Whatever number of ports of a machine is asked at once, its servers see PerSite requests in flight
// by their own count.
func TestServersOfOneMachineSeeFewRequestsAtOnce(t *testing.T) {
	const ports = 40
	for most, perSite := range map[int]int{16: 0, 5: 5} {
		var mu sync.Mutex
		var inFlight, highest int
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			inFlight++
			highest = max(highest, inFlight)
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			inFlight--
			mu.Unlock()
			fmt.Fprint(w, "")
		})
		transport, err := politeness.New(politeness.Config{
			UserAgent: agent,
			Hosts:     hostlimit.Config{PerSite: perSite, Delay: hostlimit.Delay{DangerouslyNone: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: transport}
		var wg sync.WaitGroup
		for range ports {
			var lc net.ListenConfig
			listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}} //nolint:gosec // a test's
			server.Start()
			t.Cleanup(server.Close)
			wg.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/page", http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		wg.Wait()
		if highest > most {
			t.Errorf("%d requests in flight, %d at most", highest, most)
		}
	}
}
