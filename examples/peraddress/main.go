// Peraddress paces hosts that share an address as one host. It shows a custom limiter over two of
// package hostlimit/memory. It requests three hosts on two addresses, each host twice, and prints
// when each request started and the cause of its wait.
//
//	go run ./examples/peraddress
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// addresses are those of the hosts. A crawler would look them up once.
var addresses = map[string]string{
	"a.example": "192.0.2.1",
	"b.example": "192.0.2.1",
	"c.example": "192.0.2.2",
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "peraddress:", err)
		os.Exit(1)
	}
}

// transport returns a Transport that starts a request each 200 ms on a host, and each second on an
// address.
func transport(base http.RoundTripper, sink evidence.Evidence) (*politeness.Transport, error) {
	paced := func(delay time.Duration) hostlimit.Config {
		return hostlimit.Config{Delay: hostlimit.Delay{Min: delay, Max: delay, Adaptive: hostlimit.Fixed}}
	}
	limiter, err := New(paced(200*time.Millisecond), paced(2*time.Second), func(host string) string { return addresses[host] })
	if err != nil {
		return nil, err
	}
	return politeness.New(politeness.Config{
		UserAgent:               "AddressBot/1.0 (+https://example.com/bot; bot@example.com)",
		Base:                    base,
		Limiter:                 limiter,
		Evidence:                sink,
		DangerouslyIgnoreRobots: true, // these hosts are ours
	})
}

func run(ctx context.Context, out io.Writer) error {
	web := politenesstest.NewWeb()
	for host := range addresses {
		web.Site("https://"+host).Page("/", "")
	}
	begin := time.Now()
	var mu sync.Mutex
	timeline := func(_ context.Context, d evidence.Decision) {
		mu.Lock()
		defer mu.Unlock()
		switch d.Type {
		case evidence.Started:
			fmt.Fprintf(out, "%4.1f s  %s started\n", d.Start.Sub(begin).Seconds(), d.Host)
		case evidence.Waiting:
			fmt.Fprintf(out, "%4.1f s  %s waits: %s\n", d.Time.Sub(begin).Seconds(), d.Host, d.Reason)
		}
	}
	t, err := transport(web, evidence.Func(timeline))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: t}
	var fetches sync.WaitGroup
	for host := range addresses {
		fetches.Go(func() {
			for range 2 {
				fetch(ctx, client, "https://"+host+"/")
			}
		})
	}
	fetches.Wait()
	return nil
}

// fetch reads a page to its end.
func fetch(ctx context.Context, client *http.Client, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	resp, err := client.Do(req)
	if err != nil {
		return // the log has it
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
}
