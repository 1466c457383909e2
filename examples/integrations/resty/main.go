// Resty makes a resty client polite: SetTransport is all it takes.
//
//	go run -C examples/integrations/resty .          # a site of its own, on loopback
//	go run -C examples/integrations/resty . URL...   # real pages
//
// It prints what came of each page, then what audit.Check finds in the log.
//
// What to leave to resty, and what to politeness:
//
//   - Retries: Config.Retry, not SetRetryCount. Each try takes a turn of its own, all
//     tries are one page of the budget, and Retry-After holds the host for
//     every request. Resty's retries work too, as requests of their own, but left to
//     itself resty also repeats what politeness refused: nothing is sent, and time
//     is lost. Where you need them, for POST (which Config.Retry never repeats), say so in
//     AddRetryCondition, as retryOnlySent does here.
//   - SetRateLimiter: leave it out. It refuses instead of waiting, and counts all hosts
//     together.
//   - SetTimeout: leave it out, it counts the time in the queue. Give each request a context
//     instead; a turn that can't be fetched before its deadline is refused at once.
//
// What doesn't work together:
//
//   - SetProxy, SetTLSClientConfig, SetCertificates, SetRootCertificate and the like: they
//     want an *http.Transport, and else only log an error. Set these on Config.Base.
//   - SetHeader("User-Agent"): the name in Config.UserAgent is sent instead.
//
// Resty reads each body to its end and closes it, which gives the host's slot back.
// With SetDoNotParseResponse(true) that is up to you: close RawBody.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/go-resty/resty/v2"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() { program.Run("resty", crawl) }

// crawl gets all urls at once, and returns what the log of it proves.
func crawl(ctx context.Context, out io.Writer, urls []string) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	transport, err := politeness.New(politeness.Config{
		UserAgent: "RestyExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      reach.Base(urls),
		Robots:    robotscache.Config{RecordText: true}, // so that the auditor can decide again
		Retry:     politeness.Retry{Max: 3},
		Evidence:  evidence.Multi(proof, evidence.Console(os.Stderr)), // shows why nothing happens
	})
	if err != nil {
		return nil, err
	}
	client := resty.New().SetTransport(transport)

	begin := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, url := range urls {
		group.Go(func() {
			resp, err := client.R().SetContext(ctx).Get(url)
			mu.Lock()
			defer mu.Unlock()
			seconds := time.Since(begin).Seconds()
			if err != nil {
				fmt.Fprintf(out, "%5.1f s  %v\n", seconds, err)
				return
			}
			fmt.Fprintf(out, "%5.1f s  %s: %s, %d bytes\n", seconds, url, resp.Status(), resp.Size())
		})
	}
	group.Wait()
	if err := proof.Close(); err != nil {
		return nil, err
	}
	return audit.Check(&log)
}

// retryOnlySent is for resty's AddRetryCondition: it repeats requests to which a server or the
// network gave no good response, and never those that politeness refused to send.
func retryOnlySent(resp *resty.Response, err error) bool {
	var refused *politeness.Error
	if errors.As(err, &refused) {
		return false
	}
	return err != nil || resp.StatusCode() == 429 || resp.StatusCode() >= 500
}
