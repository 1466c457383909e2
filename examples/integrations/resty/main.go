// Resty makes a resty client polite. SetTransport is the only call that you need.
//
//	go run -C examples/integrations/resty .          # a small site on loopback
//	go run -C examples/integrations/resty . URL...   # real pages
//
// It prints the result of each page, and then the findings of audit.Check on the log.
//
// Set each of these in the right place:
//
//   - Retries: use Config.Retry instead of SetRetryCount. Each try then waits for its host, all
//     tries are one page of the budget, and Retry-After applies to every request to the host.
//     Resty's retries work too, as separate requests. But by default resty also repeats requests
//     that politeness refused: these send nothing, and only lose time. If you need resty's
//     retries for POST, which Config.Retry never repeats, limit them with AddRetryCondition, as
//     retryOnlySent does here.
//   - SetRateLimiter: don't set it. It refuses instead of waiting, and counts all hosts
//     together.
//   - SetTimeout: don't set it. It includes the wait for the host. Give each request a context
//     with a deadline instead. If a request can't start before its deadline, it is refused
//     immediately.
//
// These settings don't work with politeness:
//
//   - SetProxy, SetTLSClientConfig, SetCertificates, SetRootCertificate and similar ones need an
//     *http.Transport, and otherwise only log an error. Set the equivalents on Config.Base.
//   - SetHeader("User-Agent"): the name in Config.UserAgent is sent instead.
//
// Resty reads each body to its end and closes it, which frees the host's slot. With
// SetDoNotParseResponse(true), close RawBody yourself.
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
