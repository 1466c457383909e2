package recipes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// Headers sends a language and the Referer with each request. The Referer is the page with the
// link. It is left out where the link leads to another site, as browsers do.
func Headers(ctx context.Context, t *politeness.Transport, visit func(*crawl.Page), urls ...string) error {
	_, err := run(ctx, crawl.Config{
		Transport: t,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visit(p)
			return nil
		},
		Prepare: func(r crawl.Request, req *http.Request) error {
			req.Header.Set("Accept-Language", "de, en;q=0.5")
			if from, err := url.Parse(r.From); err == nil && from.Host == req.URL.Host {
				req.Header.Set("Referer", r.From)
			}
			return nil
		},
	}, urls...)
	return err
}

// Login logs in by a form, and then crawls with the cookies that the site has set. The form takes
// its turn as any page does. robots.txt is never asked for with a cookie.
func Login(
	ctx context.Context, t *politeness.Transport, login string, form url.Values,
	visit func(*crawl.Page), urls ...string,
) error {
	jar, err := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})
	if err != nil {
		return err
	}
	client := &http.Client{Transport: t, Jar: jar}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, login, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close() // gives the host's slot back
	if resp.StatusCode >= 400 {
		return fmt.Errorf("log in: %s", resp.Status)
	}
	_, err = run(ctx, crawl.Config{
		Transport: t,
		Client:    client,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visit(p)
			return nil
		},
	}, urls...)
	return err
}

// Sessions crawls a site once for each session, with cookies of its own: one for each currency, for
// example. All sessions share one Transport, so the site is asked no faster than by one crawl.
func Sessions(
	ctx context.Context, t *politeness.Transport, names []string,
	visit func(session string, p *crawl.Page), start string,
) error {
	for _, name := range names {
		jar, err := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})
		if err != nil {
			return err
		}
		_, err = run(ctx, crawl.Config{
			Transport: t,
			Client:    &http.Client{Jar: jar}, // over t, as its Transport is nil
			Follow:    crawl.SameHost,
			Visit: func(_ context.Context, p *crawl.Page) error {
				visit(name, p)
				return nil
			},
		}, start)
		if err != nil {
			return fmt.Errorf("session %s: %w", name, err)
		}
	}
	return nil
}
