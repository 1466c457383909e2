package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

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
			i.group.Go(func() { i.answer(ctx, paused) }) // a listener must not wait
		}
	})
	if err != nil {
		return err
	}
	_, err = chromedp.Call(ctx, fetch.Enable, fetch.EnableParams{})
	return err
}

// wait waits for what is being answered. Nothing new is asked once ctx is done.
func (i *interceptor) wait() { i.group.Wait() }

// answer sends a paused request and hands over its answer, or its failure. Where the page is gone,
// what comes of it is dropped.
func (i *interceptor) answer(ctx context.Context, paused *fetch.EventRequestPaused) {
	answer, err := i.send(ctx, paused)
	if err != nil {
		failure := fetch.FailRequestParams{RequestID: paused.RequestID, ErrorReason: reason(err)}
		_, _ = chromedp.Call(ctx, fetch.FailRequest, failure)
		return
	}
	_, _ = chromedp.Call(ctx, fetch.FulfillRequest, answer)
}

// reason says to the page what is wrong.
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
	req.Header.Del("Accept-Encoding") // http.Transport's to ask for, and to undo
	resp, err := i.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body) // an answer is handed over as a whole
	if err != nil {
		return answer, err
	}
	answer = fetch.FulfillRequestParams{RequestID: paused.RequestID, ResponseCode: int64(resp.StatusCode), Body: text}
	for name, values := range resp.Header {
		if name == "Content-Length" || name == "Transfer-Encoding" {
			continue // of the body on its way, not of this one
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
