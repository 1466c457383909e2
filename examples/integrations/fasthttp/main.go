// Fasthttp makes a client of valyala/fasthttp polite. Fasthttp doesn't use net/http, so its
// Transport is an adapter, transport.go.
//
//	go run -C examples/integrations/fasthttp .          # a small site on loopback
//	go run -C examples/integrations/fasthttp . URL...   # real pages
//
// It prints the result of each page, and then the findings of audit.Check on the log.
//
// Set each of these in the right place:
//
//   - Redirects: Client.Do follows none. DoRedirects follows them. Each hop is a separate
//     request, which is checked against robots.txt and waits for its host.
//   - Timeouts: DoTimeout and ReadTimeout don't reach the adapter. Set
//     http.Transport.ResponseHeaderTimeout on Config.Base, and MaxWait for the wait.
//   - Retries: use Config.Retry. The adapter tells the client to repeat nothing.
//   - Dial, TLSConfig, MaxConnsPerHost have no effect here. Set the equivalents on Config.Base.
//
// A program that can't be changed can use politeness proxy, with fasthttpproxy or a flag such as
// muffet's --proxy.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() { program.Run("fasthttp", crawl) }

// crawl gets all urls at once, and returns what the log of it proves.
func crawl(_ context.Context, out io.Writer, urls []string) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	polite, err := politeness.New(politeness.Config{
		UserAgent: "FasthttpExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      reach.Base(urls),
		Robots:    robotscache.Config{RecordText: true}, // so that the auditor can decide again
		Retry:     politeness.Retry{Max: 3},
		Evidence:  evidence.Multi(proof, evidence.Console(os.Stderr)), // shows why nothing happens
	})
	if err != nil {
		return nil, err
	}
	client := &fasthttp.Client{Transport: transport{polite}, MaxResponseBodySize: 10 << 20}

	begin := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, url := range urls {
		group.Go(func() {
			what := fetch(client, url)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(out, "%5.1f s  %s: %s\n", time.Since(begin).Seconds(), url, what)
		})
	}
	group.Wait()
	if err := proof.Close(); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

// fetch returns the result of a page as text.
func fetch(client *fasthttp.Client, url string) string {
	req := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(req)
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(url)
	if err := client.DoRedirects(req, resp, 10); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d, %d bytes", resp.StatusCode(), len(resp.Body()))
}
