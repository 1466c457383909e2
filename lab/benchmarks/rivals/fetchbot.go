package rivals

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/PuerkitoBio/fetchbot"
)

type bot struct{ queue *fetchbot.Queue }

// NewFetchbot returns a running fetchbot. It has one goroutine, so one request at once, for each
// host.
func NewFetchbot(base http.RoundTripper, t Terms) Fetcher {
	f := fetchbot.New(nil) // each command has a handler of its own
	f.UserAgent = UserAgent
	f.CrawlDelay = t.Delay
	f.HttpClient = &http.Client{Transport: base}
	return &bot{f.Start()}
}

// Get queues the URL and waits for its answer.
func (b *bot) Get(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	err = b.queue.Send(&command{Cmd: fetchbot.Cmd{U: u, M: http.MethodGet}, done: done})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bot) Close() { _ = b.queue.Cancel() } // always nil

type command struct {
	fetchbot.Cmd
	done chan<- error
}

// Handle implements fetchbot.Handler.
func (c *command) Handle(_ *fetchbot.Context, resp *http.Response, err error) {
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body) // fetchbot closes it
	}
	c.done <- err
}
