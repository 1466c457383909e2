package politeness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/go-politeness/politeness/internal/contexts"
	"github.com/go-politeness/politeness/internal/hostname"
	"github.com/go-politeness/politeness/internal/printable"
	"github.com/go-politeness/politeness/internal/weblink"
	"github.com/go-politeness/politeness/internal/weburl"
	"github.com/go-politeness/politeness/robots"
)

// Check decides by robots.txt whether rawURL may be fetched, and doesn't fetch it. It fetches
// nothing but robots.txt. Before that fetch it waits for the host, as for any request. Use it
// before queueing a URL, and to show why one was skipped. The verdict's Preferences are those that
// robots.txt states for the use of the page. If robots.txt reserves one of Config.Purposes, the
// verdict doesn't allow the URL, and its Reason names the purpose. The verdict is reported to
// Evidence. The URL is read as browsers read it, so that /50%-off is /50%25-off.
//
// While robots.txt can't be fetched, Config.Robots decides (OnUnreachable, ServeStale). In that
// case the error is nil, and the verdict's Reason says why robots.txt can't be fetched. The error
// is an *Error if nothing could be decided, because the URL can't be fetched at all, or the fetch
// of robots.txt couldn't start. If ctx is done, the error is its cause.
func (t *Transport) Check(ctx context.Context, rawURL string) (robots.Verdict, error) {
	trip, err := t.inquire(ctx, rawURL, kindInquiry)
	if err != nil {
		return robots.Verdict{}, err
	}
	return trip.page.verdict, nil
}

// Filter returns those of urls that robots.txt allows, in their order, such as the URLs of a
// sitemap. It decides as Check does, for sixteen origins concurrently. If nothing could be decided
// about some URLs, the error joins one error for each of them, with the URL. Unlike Check, Filter
// returns an error that matches ErrUnreachable if robots.txt can't be fetched and Config.Robots
// denies pages in that case. If ctx ends before all URLs are decided, err matches the cause of ctx.
func (t *Transport) Filter(ctx context.Context, urls []string) (allowed []string, err error) {
	allows := make([]bool, len(urls))
	errs := make([]error, len(urls))
	byOrigin := make(map[string][]int)
	for i, raw := range urls {
		origin := raw
		if u, err := url.Parse(spelled(raw)); err == nil {
			origin = u.Scheme + "://" + hostname.Authority(u.Scheme, u.Host)
		}
		byOrigin[origin] = append(byOrigin[origin], i)
	}
	var group errgroup.Group
	group.SetLimit(16)
	// A panic of a function of the user's continues in the caller's goroutine, once all have ended.
	thrown := make(chan any, len(byOrigin))
	// The URLs of an origin are checked one after the other: only the first fetches its robots.txt.
	for _, indexes := range byOrigin {
		group.Go(func() error {
			defer func() { thrown <- recover() }()
			for _, i := range indexes {
				trip, err := t.inquire(ctx, urls[i], kindInquiry)
				if err == nil && !trip.page.verdict.Allowed {
					err = trip.page.lost()
				}
				errs[i] = err
				allows[i] = err == nil && trip.page.verdict.Allowed
			}
			return nil
		})
	}
	_ = group.Wait() // each URL has its own error
	for range byOrigin {
		rethrow(<-thrown)
	}
	for i, err := range errs {
		// An error of the context isn't about a single URL, so it gets no URL.
		if e, ok := errors.AsType[*Error](err); ok {
			errs[i] = fmt.Errorf("%s: %w", printable.Text(e.URL), err)
		} else if allows[i] {
			allowed = append(allowed, urls[i])
		}
	}
	return allowed, errors.Join(errs...)
}

// Sitemaps returns the Sitemap URLs that the robots.txt of rawURL's origin names. A relative URL is
// resolved against that of robots.txt. Text that is no URL is returned as written. While robots.txt
// can't be fetched, the error is an *Error that matches ErrUnreachable and has RetryAt. If a server
// has responded, and Config.Robots denies pages in that case, the error matches ErrDisallowed too.
// Use it to find start URLs. Package crawl/sitemap reads the sitemaps.
func (t *Transport) Sitemaps(ctx context.Context, rawURL string) ([]string, error) {
	trip, err := t.inquire(ctx, rawURL, kindInquiry)
	if err == nil {
		err = trip.page.lost()
	}
	if err != nil || trip.page.entry == nil { // nil: robots.txt is ignored, so it names nothing
		return nil, err
	}
	return resolved(trip.req.URL, trip.page.entry.Sitemaps()), nil
}

// resolved returns the URLs that robots.txt of the origin of u names, as browsers read them.
func resolved(u *url.URL, named []string) []string {
	robots := weblink.URL{Scheme: strings.ToLower(u.Scheme), Host: u.Host, Path: "/robots.txt"}
	urls := slices.Clone(named)
	for i, raw := range urls {
		read, err := weblink.ParseURL(&robots, raw)
		if err == nil && raw != "" { // else it would be robots.txt itself
			urls[i] = read.Spelled(raw)
		}
	}
	return urls
}

// Next reports the earliest time at which a request for rawURL could start. Use it in a frontier
// that takes up other URLs until then. Next fetches nothing and never waits for the host. If
// robots.txt isn't known yet, Next assumes that there is no crawl-delay. If the host is blocked,
// the time is the end of the block, however far. Config.Refuse is asked about a GET request without
// headers.
//
// If RoundTrip would refuse the request, as far as is known, Next returns an *Error. The error
// matches ErrDisallowed, ErrReserved or ErrBudget. If Config.Refuse returns an error, the Stage is
// StageRule. If a later request may pass, RetryAt is set.
func (t *Transport) Next(ctx context.Context, rawURL string) (time.Time, error) {
	trip, err := t.inquire(ctx, rawURL, kindForecast)
	if err != nil {
		return time.Time{}, err
	}
	if err := trip.permit(); err != nil {
		return time.Time{}, err
	}
	// A forecast fetches no robots.txt.
	if t.robots != nil {
		if entry, ok := t.robots.Peek(trip.req.URL); ok {
			trip.page.judge(entry)
			if !trip.page.verdict.Allowed {
				return time.Time{}, trip.page.refusal()
			}
		}
	}
	if err := trip.charge.afford(); err != nil {
		return time.Time{}, err
	}
	next, err := t.cfg.Limiter.Next(ctx, trip.subject.host, trip.page.floor)
	if err != nil {
		return time.Time{}, trip.noTurn(StageTurn, err)
	}
	opening := opens(trip.page.hours(), next)
	if forecast := contexts.ForecastOf(ctx); forecast != nil {
		forecast.Closed = opening.After(next)
	}
	next = opening
	if err := trip.charge.check(next); err != nil {
		return time.Time{}, err
	}
	return next, nil
}

// HostKey returns the key by which slots, delays and blocks of rawURL are counted. Use the key to
// block a host by a method of Limiter(). Use it also to group the URLs of a frontier.
// Limiter().Config().Of(key) has the number of concurrent requests of the host. If a frontier sends
// no more than that number, its requests don't wait for each other's slots. The error is an *Error
// for a URL that can't be fetched at all.
func (t *Transport) HostKey(rawURL string) (string, error) {
	trip, err := t.inquire(context.Background(), rawURL, kindForecast)
	if err != nil {
		return "", err
	}
	return trip.subject.host, nil
}

// UserAgent returns Config.UserAgent. Use it to send the name elsewhere, such as in a request by
// another client.
func (t *Transport) UserAgent() string { return t.userAgent[0] }

// spelled returns rawURL so that net/url reads it as browsers do (https://url.spec.whatwg.org). One
// that they can't read stays as it is.
func spelled(rawURL string) string {
	read, err := weblink.ParseURL(nil, rawURL)
	if err != nil {
		return rawURL
	}
	return read.Spelled(rawURL)
}

// inquire begins a trip that sends nothing, and finds the verdict of a kindInquiry.
func (t *Transport) inquire(ctx context.Context, rawURL string, k kind) (*trip, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, spelled(rawURL), http.NoBody)
	if err != nil {
		text, err := weburl.Unparsable(rawURL, err)
		return nil, &Error{Stage: StageRequest, URL: text, Err: err}
	}
	// A question about a URL that can't be fetched isn't recorded: no request was made.
	if err := weburl.Check(req.URL); err != nil {
		return nil, &Error{Stage: StageRequest, URL: weburl.Redacted(req.URL), Err: err}
	}
	trip := t.begin(req, k, nil)
	trip.spell()
	if k == kindInquiry {
		err = trip.judge()
	}
	return trip, err
}
