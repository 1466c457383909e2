package promises_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

// to redirects to a URL.
func to(url string) http.Handler { return http.RedirectHandler(url, http.StatusFound) }

// TestTemporaryOfAnError: url.Error.Temporary, by which retry loops tell what is worth another try,
// asks it.
func TestTemporaryOfAnError(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		in   time.Duration // RetryAt from now; 0: not set
		want bool
	}{
		"disallowed":                 {politeness.ErrDisallowed, 0, false},
		"reserved":                   {politeness.ErrReserved, 0, false},
		"too large":                  {politeness.ErrTooLarge, 0, false},
		"budget that isn't renewed":  {politeness.ErrBudget, 0, false},
		"budget of the day":          {politeness.ErrBudget, time.Hour, false},
		"blocked for seconds":        {politeness.ErrBlocked, 5 * time.Second, true},
		"blocked until a second ago": {politeness.ErrBlocked, -time.Second, true},
		"blocked for an hour":        {politeness.ErrBlocked, time.Hour, false},
		"not started in time":        {politeness.ErrBusy, 0, true},
		"no turn for an hour":        {politeness.ErrBusy, time.Hour, false},
		"deadline":                   {context.DeadlineExceeded, 0, true},
	} {
		e := &politeness.Error{Stage: politeness.StageTurn, Err: fmt.Errorf("why: %w", c.err)}
		if c.in != 0 {
			e.RetryAt = time.Now().Add(c.in)
		}
		var wrapped error = &url.Error{Op: "Get", URL: "http://example.com/", Err: e}
		var asked interface{ Temporary() bool }
		if !errors.As(wrapped, &asked) || asked.Temporary() != c.want {
			t.Errorf("%s: Temporary is %t", name, asked.Temporary())
		}
		var aws interface{ RetryableError() bool } // of aws/retry.RetryableError
		if !errors.As(wrapped, &aws) || aws.RetryableError() != c.want {
			t.Errorf("%s: RetryableError is %t", name, aws.RetryableError())
		}
		var permanent *cenkalti.PermanentError
		if found := errors.As(wrapped, &permanent); found == c.want || found && !errors.Is(permanent, c.err) {
			t.Errorf("%s: a PermanentError: %t, %v", name, found, permanent)
		}
		var other *PermanentError
		if errors.As(wrapped, &other) {
			t.Errorf("%s: errors.As has found another package's %v", name, other)
		}
	}
}

// A PermanentError is named as cenkalti's is.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// TestRetryLoopStopsAtARefusal: a loop of cenkalti/backoff tries a disallowed URL once, and one
// whose host is blocked for seconds until it is free.
func TestRetryLoopStopsAtARefusal(t *testing.T) {
	cfg := politeness.Config{}
	cfg.Hosts.MaxWait = time.Second // a longer wait is the loop's
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private/")
		b.site.Handle("/old", to("/private/new"))
		b.site.Page("/", "hello")
		busy := 0
		b.site.Handle("/busy", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if busy++; busy == 1 {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		}))
		tries := 0
		loop := func(url string) error {
			tries = 0
			return cenkalti.Retry(func() error {
				tries++
				status, err := b.get(url)
				if err == nil && status == http.StatusTooManyRequests {
					err = errors.New("busy")
				}
				return err
			}, cenkalti.NewExponentialBackOff())
		}
		for _, path := range []string{"/private/", "/old"} {
			err := loop("https://example.com" + path)
			refused(t, err, politeness.StageRobots, politeness.ErrDisallowed)
			if tries != 1 {
				b.Errorf("%s: %d tries", path, tries)
			}
		}
		if err := loop("https://example.com/busy"); err != nil || tries < 3 {
			b.Errorf("busy: %v in %d tries", err, tries)
		}
		b.mustGet("https://example.com/", 200)
	})
}

// TestRepeatedRefusalCostsTheSiteNothing: a loop that takes each error for the network's asks the
// site once for the page that redirects to a refused one, and once for an answer that is refused.
func TestRepeatedRefusalCostsTheSiteNothing(t *testing.T) {
	cfg := politeness.Config{Response: politeness.ResponseLimits{MaxBytes: 100, Reject: []string{"video/*"}}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private/")
		b.site.Handle("/old", to("/older")).Handle("/older", to("/private/new"))
		b.site.Handle("/mail", to("mailto:someone@example.com"))
		b.site.Handle("/large", politenesstest.Drip("piece", 100, 0)) // without a Content-Length
		b.site.Handle("/film", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "video/mp4") }))
		asked := func(path string) (n int) {
			for _, url := range b.asked() {
				if url == "https://example.com"+path {
					n++
				}
			}
			return n
		}
		for path, c := range map[string]struct {
			stage politeness.Stage
			err   error
		}{
			"/old":   {politeness.StageRobots, politeness.ErrDisallowed},
			"/mail":  {politeness.StageRequest, nil},
			"/large": {politeness.StageBody, politeness.ErrTooLarge},
			"/film":  {politeness.StageResponse, politeness.ErrContentType},
		} {
			for range 5 {
				_, err := b.get("https://example.com" + path)
				refused(t, err, c.stage, c.err)
				time.Sleep(time.Second)
			}
			if n := asked(path); n != 1 {
				b.Errorf("%s was asked for %d times", path, n)
			}
			time.Sleep(time.Minute) // each repeat was no beginning of another one
			_, err := b.get("https://example.com" + path)
			refused(t, err, c.stage, c.err)
			if n := asked(path); n != 2 {
				b.Errorf("a minute later %s was asked for %d times", path, n)
			}
		}
		if n := asked("/older"); n != 2 {
			b.Errorf("/older was asked for %d times", n)
		}
		time.Sleep(time.Minute)
		for _, path := range []string{"/old", "/older"} { // each is a page before the refused one
			_, err := b.get("https://example.com" + path)
			refused(t, err, politeness.StageRobots, politeness.ErrDisallowed)
		}
		if n := asked("/older"); n != 3 {
			b.Errorf("/older was asked for %d times", n)
		}
		if d := b.last(evidence.BlockedByRule); !strings.Contains(d.Reason, "led to https://example.com/private/new: disallowed") {
			b.Errorf("the reason on record: %q", d.Reason)
		}
	})
}

// TestAnotherRequestIsNoRepeat: whoever has other credentials, or asks for another part, may have
// another answer; so may whoever can wait for longer.
func TestAnotherRequestIsNoRepeat(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private/")
		b.site.Handle("/account", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Cookie") == "" && r.Header.Get("Authorization") == "" && r.Method == http.MethodGet {
				http.Redirect(w, r, "/private/login", http.StatusFound)
			}
		}))
		ask := func(method, name, value string) (*http.Response, error) {
			req, err := http.NewRequestWithContext(b.Context(), method, "https://example.com/account", nil)
			if err != nil {
				b.Fatal(err)
			}
			if name != "" {
				req.Header.Set(name, value)
			}
			return b.client.Do(req)
		}
		_, err := ask(http.MethodGet, "", "")
		refused(t, err, politeness.StageRobots, politeness.ErrDisallowed)
		_, err = ask(http.MethodGet, "Traceparent", "00-1-2-3") // the number of a trace makes no other request
		refused(t, err, politeness.StageRobots, politeness.ErrDisallowed)
		if asked := b.asked(); len(asked) != 2 { // for robots.txt, and once
			b.Errorf("the web was asked for %v", asked)
		}
		for _, c := range [][3]string{
			{http.MethodGet, "Cookie", "session=1"},
			{http.MethodGet, "Authorization", "Bearer x"},
			{http.MethodHead, "", ""},
			{http.MethodPost, "", ""},
		} {
			resp, err := ask(c[0], c[1], c[2])
			if err != nil {
				b.Errorf("%v: %v", c, err)
				continue
			}
			resp.Body.Close()
		}
	})
	cfg := politeness.Config{}
	cfg.Hosts.Delay.Min, cfg.Hosts.Delay.Max = 10*time.Second, 10*time.Second
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/old", to("/new")).Page("/new", "hello")
		ctx, cancel := context.WithTimeout(b.Context(), 15*time.Second)
		defer cancel()
		_, err := fetch(ctx, b.client, "https://example.com/old")
		if err == nil {
			b.Fatal("no deadline")
		}
		b.mustGet("https://example.com/old", 200)
	})
}

// TestWordsOfARefusedHop: libraries that look at an error's text stop at the words of http.Client
// for redirects, at the end of the text.
func TestWordsOfARefusedHop(t *testing.T) {
	virtually(t, politeness.Config{}, func(b *bubble) {
		b.site.Robots("User-agent: *\nDisallow: /private/")
		b.site.Handle("/old", to("/older")).Handle("/older", to("/private/new")).Handle("/late", to("https://busy.example/"))
		b.web.Site("https://busy.example").Handle("/", politenesstest.Status(http.StatusTooManyRequests, "Retry-After", "7200"))
		words := regexp.MustCompile(`stopped after 2 redirects\z`)
		_, err := b.get("https://example.com/old")
		if !words.MatchString(err.Error()) {
			b.Errorf("a refused hop: %v", err)
		}
		_, err = b.get("https://example.com/private/new")
		if strings.Contains(err.Error(), "redirect") {
			b.Errorf("no hop: %v", err)
		}
		b.mustGet("https://busy.example/", http.StatusTooManyRequests)
		_, err = b.get("https://example.com/late")
		refused(t, err, politeness.StageTurn, politeness.ErrBlocked)
		if strings.Contains(err.Error(), "stopped") {
			b.Errorf("a hop that may be asked for later: %v", err)
		}
	})
}
