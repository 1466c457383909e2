// Retryablehttp puts politeness below a client of hashicorp/go-retryablehttp. go-retryablehttp
// decides whether to try again, and politeness decides when.
//
//	go run -C examples/integrations/retryablehttp .          # a small site on loopback
//	go run -C examples/integrations/retryablehttp . URL...   # real pages
//
// It prints the result of each page, and then the findings of audit.Check on the log.
//
// Use only one of the two retries:
//
//   - Without go-retryablehttp, Config.Retry repeats idempotent requests after 429, 5xx and
//     network errors. All tries are one page of the budget.
//   - With go-retryablehttp, as here, leave Config.Retry at zero. With both, 5 tries become 25.
//     Each try of go-retryablehttp is a separate request: it is checked against robots.txt,
//     waits for its host and costs a page of the budget. go-retryablehttp also repeats POST,
//     which Config.Retry never does.
//   - Its CheckRetry treats every error as one of the network, and so repeats refusals, too. See
//     checkRetry. Its Backoff believes any Retry-After, even of a year, and lets only this
//     request wait. See backoffOf. Here the host is blocked instead, for every request and for a
//     day at most.
//   - By default it turns the last 429 or 5xx into an error. With PassthroughErrorHandler you
//     get the response.
//
// Don't put go-retryablehttp below politeness, as Config.Base (Client.StandardClient().Transport).
// Politeness then sees neither its retries nor the redirects that its http.Client follows. They
// aren't checked against robots.txt, don't wait, and ignore the block that the first response has
// just set. They are missing from the evidence.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/examples/internal/program"
	"github.com/go-politeness/politeness/examples/internal/reach"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

func main() { program.Run("retryablehttp", crawl) }

// crawl gets all urls at once, and returns what the log of it proves.
func crawl(ctx context.Context, out io.Writer, urls []string) (*audit.Report, error) {
	var log bytes.Buffer
	proof := evidence.JSONLines(&log)
	client, err := newClient(evidence.Multi(proof, evidence.Console(os.Stderr)), urls)
	if err != nil {
		return nil, err
	}

	begin := time.Now()
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, url := range urls {
		group.Go(func() {
			what := fetch(ctx, client, url)
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

// newClient makes a retrying client whose every try is polite.
func newClient(proof evidence.Evidence, urls []string) (*retryablehttp.Client, error) {
	transport, err := politeness.New(politeness.Config{
		UserAgent: "RetryExample/1.0 (+https://example.com/bot; bot@example.com)",
		Base:      reach.Base(urls),
		Hosts: hostlimit.Config{
			Backoff: backoff.Refusals{Statuses: []int{http.StatusServiceUnavailable}}, // and 429
		},
		Robots:   robotscache.Config{RecordText: true}, // so that the auditor can decide again
		Evidence: proof,
	})
	if err != nil {
		return nil, err
	}
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: transport}
	client.RetryMax = 4
	client.CheckRetry = checkRetry
	client.Backoff = backoffOf
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client.Logger = nil
	return client, nil
}

// checkRetry repeats requests that were sent and failed, and never those that politeness refused to
// send. Error.RetryAt says when a refused one may be sent.
func checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	var refused *politeness.Error
	if errors.As(err, &refused) {
		return false, err
	}
	return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
}

// backoffOf returns 0 if the host's state makes the next try wait: after a 429 or a 503, for as
// long as Retry-After or hostlimit.Config.Backoff ask.
func backoffOf(least, most time.Duration, attempt int, resp *http.Response) time.Duration {
	if resp != nil {
		switch resp.StatusCode {
		case http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return 0
		}
	}
	return retryablehttp.DefaultBackoff(least, most, attempt, resp)
}

func fetch(ctx context.Context, client *retryablehttp.Client, url string) string {
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s, %d bytes", resp.Status, n)
}
