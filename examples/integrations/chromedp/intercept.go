package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/go-politeness/politeness"
)

// An interceptor makes the requests of a tab go through an http.Client: each is paused by
// the browser (DevTools domain Fetch), sent from here, and its answer handed to the page.
type interceptor struct {
	client *http.Client
	group  sync.WaitGroup
	open   atomic.Int64 // requests that aren't answered yet
	ended  atomic.Int64 // requests that are

	// document answers the requests for the pages of the tab and of its frames in another way, if it
	// returns true. Nil: they are answered as all others are.
	document func(ctx context.Context, paused *fetch.EventRequestPaused) (answered bool)
}

// newInterceptor returns an interceptor that sends through transport. Redirects are handed
// to the browser, which comes back with the next hop; it keeps the cookies, too.
func newInterceptor(transport http.RoundTripper) *interceptor {
	return &interceptor{client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// attach makes the interceptor answer all requests of the tab of ctx from now on.
func (i *interceptor) attach(ctx context.Context) error {
	err := chromedp.Listen(ctx, func(event any) {
		if paused, ok := event.(*fetch.EventRequestPaused); ok {
			i.open.Add(1)
			i.group.Go(func() { // a listener must not wait
				i.answer(ctx, paused)
				i.ended.Add(1)
				i.open.Add(-1)
			})
		}
	})
	if err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, fetch.Enable, fetch.EnableParams{})
	return err
}

// wait waits for the requests that are under way. No request begins once ctx is done.
func (i *interceptor) wait() { i.group.Wait() }

// idle waits until no request was made for some time.
func (i *interceptor) idle(ctx context.Context, quiet time.Duration) {
	for {
		before := i.ended.Load()
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return
		}
		if i.open.Load() == 0 && i.ended.Load() == before {
			return
		}
	}
}

// answer sends a paused request and hands over its answer, or its failure. If the page is gone, the
// response is dropped.
func (i *interceptor) answer(ctx context.Context, paused *fetch.EventRequestPaused) {
	isDocument := paused.ResourceType == network.ResourceTypeDocument
	if isDocument && i.document != nil && i.document(ctx, paused) {
		return
	}
	answer, err := i.send(ctx, paused)
	if err != nil {
		fail(ctx, paused, reason(err))
		return
	}
	_, _ = chromedp.Call(ctx, fetch.FulfillRequest, answer)
}

// fail answers a request of the tab with an error.
func fail(tab context.Context, paused *fetch.EventRequestPaused, why network.ErrorReason) {
	failure := fetch.FailRequestParams{RequestID: paused.RequestID, ErrorReason: why}
	_, _ = chromedp.Call(tab, fetch.FailRequest, failure)
}

// reason returns the error for the page.
func reason(err error) network.ErrorReason {
	var refused *politeness.Error
	switch {
	case errors.As(err, &refused):
		return network.ErrorReasonBlockedByClient
	case errors.Is(err, context.DeadlineExceeded):
		return network.ErrorReasonTimedOut
	}
	return network.ErrorReasonFailed
}

func (i *interceptor) send(
	ctx context.Context, paused *fetch.EventRequestPaused,
) (answer fetch.FulfillRequestParams, err error) {
	body, err := bodyOf(paused.Request)
	if err != nil {
		return answer, err
	}
	req, err := http.NewRequestWithContext(ctx, paused.Request.Method, paused.Request.URL, body)
	if err != nil {
		return answer, err
	}
	for name, value := range paused.Request.Headers {
		req.Header.Set(name, fmt.Sprint(value))
	}
	req.Header.Del("Accept-Encoding") // http.Transport adds it, and decodes the body
	resp, err := i.client.Do(req)
	if err != nil {
		return answer, err
	}
	return handedOver(paused.RequestID, resp)
}

// handedOver reads an answer, which is handed over as a whole.
func handedOver(id fetch.RequestID, resp *http.Response) (answer fetch.FulfillRequestParams, err error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer, err
	}
	answer = fetch.FulfillRequestParams{RequestID: id, ResponseCode: int64(resp.StatusCode), Body: text}
	for name, values := range resp.Header {
		if name == "Content-Length" || name == "Transfer-Encoding" {
			continue // about the body as it was sent, and not as it is handed over
		}
		for _, value := range values {
			answer.ResponseHeaders = append(answer.ResponseHeaders, &fetch.HeaderEntry{Name: name, Value: value})
		}
	}
	return answer, nil
}

// bodyOf returns the body of a request, nil if it has none.
func bodyOf(req *network.Request) (io.Reader, error) {
	if !req.HasPostData {
		return nil, nil
	}
	if len(req.PostDataEntries) == 0 {
		return nil, errors.New("the browser keeps the body to itself: it is a file or too long")
	}
	var body bytes.Buffer
	for _, entry := range req.PostDataEntries {
		body.Write(entry.Bytes)
	}
	return &body, nil
}
