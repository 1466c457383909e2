package politenesstest_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
)

// A crawler is what the small crawlers below are made of. It knows no manners: they have their own.
type crawler struct {
	t      *testing.T
	client *http.Client
	site   *politenesstest.Site // what the path of a URL alone is of
	agent  string
	wg     sync.WaitGroup
}

// get fetches a URL, or a path of the site, and reads the answer to its end. Without an answer
// its status is 0.
func (c *crawler) get(rawURL string) (status int, header http.Header, body string) {
	return c.do(c.t.Context(), http.MethodGet, rawURL)
}

func (c *crawler) do(ctx context.Context, method, rawURL string) (status int, header http.Header, body string) {
	resp := c.open(ctx, method, rawURL)
	if resp == nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(text)
}

// open sends a request and leaves the answer's body open.
func (c *crawler) open(ctx context.Context, method, rawURL string) *http.Response {
	if strings.HasPrefix(rawURL, "/") {
		rawURL = site + rawURL
	}
	req, err := http.NewRequestWithContext(ctx, method, rawURL, nil)
	if err != nil {
		c.t.Error(err)
		return nil
	}
	req.Header.Set("User-Agent", c.agent)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil
	}
	return resp
}

// every fetches URLs with a pause after each.
func (c *crawler) every(pause time.Duration, urls ...string) {
	for _, u := range urls {
		c.get(u)
		time.Sleep(pause)
	}
}

// together fetches URLs at the same time, and waits for all.
func (c *crawler) together(urls ...string) {
	for _, u := range urls {
		c.wg.Go(func() { c.get(u) })
	}
	c.wg.Wait()
}

// A habit is a crawler of a few lines, on a web of its own.
type habit struct {
	name  string
	kind  politenesstest.Kind // what is to be found, and nothing else; empty if it is polite
	rules politenesstest.Rules
	site  func(*politenesstest.Web, *politenesstest.Site) // nil: answers every path
	crawl func(*crawler)
}

// run plays the habit and says which kinds of violations were found.
func (h habit) run(t *testing.T) map[politenesstest.Kind]int {
	web := politenesstest.NewWeb()
	a := web.Site(site).Handle("/", politenesstest.Text("page"))
	if h.site != nil {
		h.site(web, a)
	}
	h.crawl(&crawler{t: t, client: &http.Client{Transport: web}, site: a, agent: "RudeBot/1.0 (+https://rude.example/bot)"})
	kinds := make(map[politenesstest.Kind]int)
	for _, v := range web.Violations(h.rules) {
		kinds[v.Kind]++
		t.Log(v)
	}
	return kinds
}

// TestRudeCrawlersAreCaught is the checker's own test by an oracle that shares nothing with it: people
// know that these crawlers are rude, and in which way.
func TestRudeCrawlersAreCaught(t *testing.T) {
	if len(rude) < 50 {
		t.Errorf("%d rude crawlers, fewer than 50", len(rude))
	}
	for _, h := range rude {
		t.Run(h.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if kinds := h.run(t); kinds[h.kind] == 0 || len(kinds) != 1 {
					t.Errorf("found %v, want %s alone", kinds, h.kind)
				}
			})
		})
	}
}

func TestPoliteCrawlersAreNotCalledRude(t *testing.T) {
	for _, h := range polite {
		t.Run(h.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if kinds := h.run(t); len(kinds) != 0 {
					t.Errorf("found %v", kinds)
				}
			})
		})
	}
}

// robots makes the site say so in its robots.txt.
func robots(lines ...string) func(*politenesstest.Web, *politenesstest.Site) {
	return func(_ *politenesstest.Web, a *politenesstest.Site) { a.Robots(strings.Join(lines, "\n") + "\n") }
}

// failing makes the site answer /down with 503, always.
func failing(_ *politenesstest.Web, a *politenesstest.Site) {
	a.Handle("/", politenesstest.Text("page")).Handle("/down", politenesstest.Status(503))
}

// failingAndBusy makes the site answer /down1 and /down2 with 503, and /busy with 429 after
// half a second.
func failingAndBusy(_ *politenesstest.Web, a *politenesstest.Site) {
	a.Handle("/down1", politenesstest.Status(503)).Handle("/down2", politenesstest.Status(503)).
		Handle("/busy", politenesstest.Slow(500*ms, politenesstest.Status(429, "Retry-After", "5")))
}

// refusing makes the site answer /busy once with 429 and a Retry-After.
func refusing(after string) func(*politenesstest.Web, *politenesstest.Site) {
	return func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", after), politenesstest.Text("page")))
	}
}

// inAMinute makes /busy refuse until a date, by a clock that is an hour ahead.
func inAMinute(_ *politenesstest.Web, a *politenesstest.Site) {
	a.Handle("/busy", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now().Add(time.Hour).UTC()
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.Add(time.Minute).Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
}

var (
	second1 = politenesstest.Rules{Delay: time.Second} // a second between starts
	serial  = politenesstest.Rules{Concurrency: 1}     // one request at a time
)

var rude = []habit{
	// Too soon.
	{"no delay", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "/2") }},
	{"a delay that is too short", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(999*ms, "/1", "/2") }},
	{"a delay for each worker", politenesstest.Gap, second1, nil, func(c *crawler) {
		for range 2 {
			c.wg.Go(func() { c.every(second, "/1", "/2") })
		}
		c.wg.Wait()
	}},
	{"a delay on average", politenesstest.Gap, second1, nil, func(c *crawler) {
		for range 3 {
			c.every(0, "/1", "/2", "/3")
			time.Sleep(3 * second)
		}
	}},
	{"a tick that isn't used is saved up", politenesstest.Gap, second1, nil, func(c *crawler) {
		ticks := time.NewTicker(second)
		defer ticks.Stop()
		for i := range 4 {
			<-ticks.C
			c.get("/")
			time.Sleep(time.Duration(1500*(i%2)) * ms)
		}
	}},
	{"no delay before robots.txt", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "/robots.txt") }},
	{"no delay after robots.txt", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/robots.txt", "/1") }},
	{"redirects uncounted", politenesstest.Gap, second1, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/old", http.RedirectHandler("/new", http.StatusMovedPermanently))
	}, func(c *crawler) { c.every(second, "/old") }},
	{"redirects uncounted on the host that they lead to", politenesstest.Gap, second1, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/away", http.RedirectHandler("https://b.example/", http.StatusFound))
		w.Site("https://b.example").Page("/", "page")
	}, func(c *crawler) { c.every(0, "https://b.example/", "/away") }},
	{"tries again at once", politenesstest.Gap, second1, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Sequence("/1", 500, 200) }, func(c *crawler) {
		for status := 500; status == 500; {
			status, _, _ = c.get("/1")
		}
	}},
	{"tries again at once when the connection breaks", politenesstest.Gap, second1, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/1", politenesstest.Drop())
	}, func(c *crawler) { c.every(0, "/1", "/1") }},
	{"goes on at once when it gives up a page", politenesstest.Gap, second1, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(time.Minute) }, func(c *crawler) {
		ctx, cancel := context.WithTimeout(c.t.Context(), 500*ms)
		defer cancel()
		c.do(ctx, http.MethodGet, "/1")
		c.get("/2")
	}},
	{"HEAD is free", politenesstest.Gap, second1, nil, func(c *crawler) {
		c.do(c.t.Context(), http.MethodHead, "/1")
		c.get("/1")
	}},
	{"measures to when it asked for a connection", politenesstest.Gap, second1, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Dial(900 * ms) }, func(c *crawler) {
		c.wg.Go(func() { c.get("/1") })
		time.Sleep(second)
		c.get("/2") // finds the free connection
		c.wg.Wait()
	}},
	{"http and https as two hosts", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "http://a.example/1") }},
	{"upper case as another host", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "https://A.Example/2") }},
	{"a final dot as another host", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "https://a.example./2") }},
	{"a port as another host", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "https://a.example:443/2") }},
	{"zeros in a port as another host", politenesstest.Gap, second1, nil, func(c *crawler) { c.every(0, "/1", "https://a.example:00443/2") }},
	{"an umlaut as another host", politenesstest.Gap, second1, nil, func(c *crawler) {
		c.every(0, "https://bücher.example/", "https://xn--bcher-kva.example/")
	}},
	{"an IPv6 address in full as another host", politenesstest.Gap, second1, nil, func(c *crawler) {
		c.every(0, "http://[2001:db8::1]/", "http://[2001:0DB8:0:0::0001]/")
	}},
	{"a mapped address as another host", politenesstest.Gap, second1, nil, func(c *crawler) {
		c.every(0, "http://192.0.2.7/", "http://[::ffff:192.0.2.7]/")
	}},
	{"two names of one site as two hosts", politenesstest.Gap, politenesstest.Rules{
		Delay: time.Second, HostKey: func(*http.Request) string { return "example" },
	}, nil, func(c *crawler) { c.every(0, "/1", "https://www.a.example/1") }},
	{"crawl-delay ignored", politenesstest.Gap, second1, robots("User-agent: *", "Crawl-delay: 5"), func(c *crawler) {
		c.every(second, "/robots.txt", "/1", "/2")
	}},
	{"crawl-delay rounded down", politenesstest.Gap, politenesstest.Rules{}, robots("User-agent: *", "Crawl-delay: 1.5"), func(c *crawler) {
		c.every(second, "/robots.txt", "/1")
	}},
	{
		"crawl-delay of the wrong group", politenesstest.Gap,
		politenesstest.Rules{},
		robots("User-agent: *", "Crawl-delay: 1", "Allow: /", "User-agent: rudebot", "Crawl-delay: 10", "Allow: /"), func(c *crawler) {
			c.every(second, "/robots.txt", "/1")
		},
	},
	{"crawl-delay kept by each worker", politenesstest.Gap, politenesstest.Rules{}, robots("User-agent: *", "Crawl-delay: 5"), func(c *crawler) {
		c.every(5*second, "/robots.txt")
		c.together("/1", "/2")
	}},
	{"request-rate ignored", politenesstest.Gap, politenesstest.Rules{}, robots("User-agent: *", "Request-rate: 1/10"), func(c *crawler) {
		c.every(2*second, "/robots.txt", "/1")
	}},
	{"never asks for the crawl-delay", politenesstest.Gap, politenesstest.Rules{}, robots("User-agent: *", "Crawl-delay: 5"), func(c *crawler) {
		c.every(second, "/1", "/2")
	}},
	{"asks for robots.txt again and again", politenesstest.Gap, second1, nil, func(c *crawler) {
		c.every(0, "/robots.txt", "/robots.txt", "/robots.txt")
	}},

	// Too many.
	{
		"parallel starts above the slots", politenesstest.Concurrency,
		politenesstest.Rules{Concurrency: 2},
		func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(second) },
		func(c *crawler) { c.together("/1", "/2", "/3") },
	},
	{"all ports of a machine", politenesstest.PerSite, politenesstest.Rules{PerSite: 2}, func(w *politenesstest.Web, _ *politenesstest.Site) {
		w.Site("https://a.example:81").Latency(second)
		w.Site("https://a.example:82").Latency(second)
		w.Site("https://a.example:83").Latency(second)
	}, func(c *crawler) {
		c.together("https://a.example:81/", "https://a.example:82/", "https://a.example:83/")
	}},
	{"many names of a domain", politenesstest.PerSite, politenesstest.Rules{PerSite: 2}, func(w *politenesstest.Web, _ *politenesstest.Site) {
		w.Site("https://x.b.co.uk").Latency(second)
		w.Site("https://y.b.co.uk").Latency(second)
		w.Site("https://b.co.uk").Latency(second)
	}, func(c *crawler) { c.together("https://x.b.co.uk/", "https://y.b.co.uk/", "https://b.co.uk/") }},
	{"a slot for each scheme", politenesstest.Concurrency, serial, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Latency(second)
		w.Site("http://a.example").Latency(second)
	}, func(c *crawler) { c.together("/1", "http://a.example/") }},
	{"gives its slot back at the headers", politenesstest.Concurrency, serial, nil, func(c *crawler) {
		first := c.open(c.t.Context(), http.MethodGet, "/1")
		c.get("/2")
		first.Body.Close()
	}},
	{"never closes a body", politenesstest.Concurrency, serial, nil, func(c *crawler) {
		first := c.open(c.t.Context(), http.MethodGet, "/1")
		time.Sleep(time.Hour)
		c.get("/2")
		first.Body.Close()
	}},
	{
		"robots.txt beside the slots", politenesstest.Concurrency, serial, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(second) },
		func(c *crawler) { c.together("/robots.txt", "/1") },
	},
	{"takes slow answers for lost ones", politenesstest.Concurrency, serial, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(time.Minute) }, func(c *crawler) {
		c.wg.Go(func() { c.get("/1") })
		time.Sleep(30 * second)
		c.get("/2")
		c.wg.Wait()
	}},

	// Into a block.
	{"429 ignored", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(second, "/busy", "/busy") }},
	{"429 stops one page alone", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(second, "/busy", "/2") }},
	{"429 stops one scheme alone", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(second, "/busy", "http://a.example/") }},
	{"429 stops one spelling alone", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(second, "/busy", "https://A.EXAMPLE.:443/") }},
	{"429 stops pages, not robots.txt", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(second, "/busy", "/robots.txt") }},
	{"429 stops one worker alone", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) {
		c.wg.Go(func() { c.every(time.Minute, "/busy", "/2") })
		time.Sleep(second)
		c.every(second, "/3", "/4")
		c.wg.Wait()
	}},
	{"Retry-After in milliseconds", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(60*ms, "/busy", "/busy") }},
	{"half of a Retry-After", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(30*second, "/busy", "/busy") }},
	{"Retry-After up to a minute", politenesstest.Block, politenesstest.Rules{}, refusing("86400"), func(c *crawler) { c.every(time.Minute, "/busy", "/busy") }},
	{"Retry-After in seconds only", politenesstest.Block, politenesstest.Rules{}, inAMinute, func(c *crawler) {
		_, header, _ := c.get("/busy")
		after, _ := strconv.Atoi(header.Get("Retry-After")) // an HTTP date: 0
		time.Sleep(time.Duration(after)*second + second)
		c.get("/2")
	}},
	{"doubles, whatever is asked for", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) {
		for pause := second; pause < 20*second; pause *= 2 {
			c.get("/busy")
			time.Sleep(pause)
		}
	}},
	{"the last Retry-After counts", politenesstest.Block, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/1", politenesstest.Status(429, "Retry-After", "600")).Handle("/2", politenesstest.Slow(second, politenesstest.Status(429, "Retry-After", "5")))
	}, func(c *crawler) {
		c.together("/1", "/2")
		time.Sleep(5 * second)
		c.get("/3")
	}},
	{"a success of one that was on its way lifts the block", politenesstest.Block, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/1", politenesstest.Status(429, "Retry-After", "60")).Handle("/2", politenesstest.Slow(second, politenesstest.Text("page")))
	}, func(c *crawler) {
		c.together("/1", "/2")
		time.Sleep(second)
		c.get("/3")
	}},
	{"a 429 of robots.txt is none", politenesstest.Block, politenesstest.Rules{AllowUnreachable: true}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", politenesstest.Status(429, "Retry-After", "60"))
	}, func(c *crawler) { c.every(second, "/robots.txt", "/1") }},
	{"a 429 behind a redirect is the first host's", politenesstest.Block, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/away", http.RedirectHandler("https://b.example/busy", http.StatusFound))
		w.Site("https://b.example").Handle("/busy", politenesstest.Status(429, "Retry-After", "60")).Page("/", "page")
	}, func(c *crawler) { c.every(second, "/away", "https://b.example/") }},
	{"503 ignored by rules that count it", politenesstest.Block, politenesstest.Rules{Refusals: []int{429, 503}}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/busy", politenesstest.Status(503, "Retry-After", "60"))
	}, func(c *crawler) { c.every(second, "/busy", "/1") }},
	{"asks on after a bare 503", politenesstest.Block, politenesstest.Rules{}, failing, func(c *crawler) { c.every(100*ms, "/down", "/1", "/2") }},
	{"asks on after no response", politenesstest.Block, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Handle("/down", politenesstest.Drop()) }, func(c *crawler) { c.every(100*ms, "/down", "/1") }},
	{"tries a page again and again", politenesstest.Block, politenesstest.Rules{}, failing, func(c *crawler) { c.every(second, "/down", "/down", "/down", "/down", "/down") }},
	{"never slows down on a host that is down", politenesstest.Block, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Down(syscall.ECONNREFUSED) }, func(c *crawler) {
		c.every(second, "/1", "/2", "/3", "/4")
	}},
	{"a 503 stops one worker alone", politenesstest.Block, politenesstest.Rules{}, failing, func(c *crawler) {
		c.wg.Go(func() { c.every(second, "/down", "/2") })
		time.Sleep(500 * ms)
		c.every(500*ms, "/3", "/4")
		c.wg.Wait()
	}},
	{"all workers at once, after a rest", politenesstest.Block, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		failing(w, a)
		a.Latency(100 * ms)
	}, func(c *crawler) {
		c.every(second, "/down")
		c.together("/1", "/2", "/3")
	}},
	{"takes the failure of a page after a 429 for its own", politenesstest.Block, politenesstest.Rules{}, failingAndBusy, func(c *crawler) {
		c.together("/down1", "/busy")
		time.Sleep(5 * second)
		c.every(100*ms, "/down1", "/1")
	}},
	{"takes robots.txt for the end of a trouble", politenesstest.Block, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		failing(w, a)
		a.Latency(100 * ms)
	}, func(c *crawler) {
		c.every(second, "/down", "/robots.txt")
		c.together("/1", "/2")
	}},
	{"goes on into a ban", politenesstest.Block, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Handle("/", politenesstest.Status(403)) }, func(c *crawler) {
		c.every(second, "/1", "/2", "/3", "/4", "/5", "/6", "/7")
	}},
	{"another name after a 429", politenesstest.Block, politenesstest.Rules{}, refusing("60"), func(c *crawler) {
		c.every(second, "/busy")
		c.agent = "Mozilla/5.0"
		c.get("/1")
	}},

	// What robots.txt disallows.
	{"robots.txt unfetched", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) { c.every(second, "/1", "/private") }},
	{"robots.txt fetched too late", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.every(second, "/private", "/robots.txt")
	}},
	{"robots.txt fetched together with the page", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.together("/robots.txt", "/private")
	}},
	{"robots.txt fetched for form's sake", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.every(second, "/robots.txt", "/private")
	}},
	{"robots.txt once for ever", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Allow: /"), func(c *crawler) {
		c.get("/robots.txt")
		time.AfterFunc(time.Hour, func() { c.site.Robots("User-agent: *\nDisallow: /\n") })
		time.Sleep(7 * 24 * time.Hour)
		c.get("/1")
	}},
	{"robots.txt of the name above", politenesstest.Disallowed, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Robots("User-agent: *\nAllow: /\n")
		w.Site("https://blog.a.example").Robots("User-agent: *\nDisallow: /\n").Page("/", "page")
	}, func(c *crawler) { c.every(second, "/robots.txt", "https://blog.a.example/") }},
	{"robots.txt of the other scheme", politenesstest.Disallowed, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Robots("User-agent: *\nAllow: /\n")
		w.Site("http://a.example").Robots("User-agent: *\nDisallow: /\n").Page("/", "page")
	}, func(c *crawler) { c.every(second, "/robots.txt", "http://a.example/") }},
	{"robots.txt of the other port", politenesstest.Disallowed, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Robots("User-agent: *\nAllow: /\n")
		w.Site("https://a.example:8443").Robots("User-agent: *\nDisallow: /\n").Page("/", "page")
	}, func(c *crawler) { c.every(second, "/robots.txt", "https://a.example:8443/") }},
	{"a redirect of robots.txt isn't followed", politenesstest.Disallowed, politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", http.RedirectHandler("https://b.example/rules", http.StatusFound))
		w.Site("https://b.example").Page("/rules", "User-agent: *\nDisallow: /private\n")
	}, func(c *crawler) {
		c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.every(second, "/robots.txt", "/private")
	}},
	{"follows redirects to where it may not", politenesstest.Disallowed, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Robots("User-agent: *\nDisallow: /private\n").Handle("/old", http.RedirectHandler("/private", http.StatusFound))
	}, func(c *crawler) { c.every(second, "/robots.txt", "/old") }},
	{
		"the wrong group of robots.txt", politenesstest.Disallowed,
		politenesstest.Rules{},
		robots("User-agent: *", "Disallow:", "User-agent: RudeBot", "Disallow: /private"), func(c *crawler) { c.every(second, "/robots.txt", "/private") },
	},
	{
		"the first of its groups alone", politenesstest.Disallowed,
		politenesstest.Rules{},
		robots("User-agent: rudebot", "Disallow: /1", "User-agent: *", "Disallow:", "User-agent: rudebot", "Disallow: /2"), func(c *crawler) {
			c.every(second, "/robots.txt", "/2")
		},
	},
	{
		"another name to pass robots.txt", politenesstest.Disallowed,
		politenesstest.Rules{Agent: "RudeBot"},
		robots("User-agent: rudebot", "Disallow: /private"), func(c *crawler) {
			c.every(second, "/robots.txt")
			c.agent = "Mozilla/5.0"
			c.get("/private")
		},
	},
	{"the first rule that fits", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Allow: /", "Disallow: /private"), func(c *crawler) {
		c.every(second, "/robots.txt", "/private")
	}},
	{"stars aren't read", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /*.pdf$"), func(c *crawler) {
		c.every(second, "/robots.txt", "/paper.pdf")
	}},
	{"queries aren't read", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /*?sort="), func(c *crawler) {
		c.every(second, "/robots.txt", "/list?sort=name")
	}},
	{"percent signs as a way round", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.every(second, "/robots.txt", "/%70rivate")
	}},
	{"HEAD needs no permission", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.every(second, "/robots.txt")
		c.do(c.t.Context(), http.MethodHead, "/private")
	}},
	{"asks for robots.txt by HEAD", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.do(c.t.Context(), http.MethodHead, "/robots.txt")
		c.get("/private")
	}},
	{"reads the beginning of robots.txt", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /1", "Disallow: /private"), func(c *crawler) {
		resp := c.open(c.t.Context(), http.MethodGet, "/robots.txt")
		_, _ = io.CopyN(io.Discard, resp.Body, 20)
		resp.Body.Close()
		c.get("/private")
	}},
	{
		"takes a 503 of robots.txt for none", politenesstest.Disallowed,
		politenesstest.Rules{},
		func(_ *politenesstest.Web, a *politenesstest.Site) { a.RobotsStatus(503) },
		func(c *crawler) { c.every(second, "/robots.txt", "/1") },
	},
	{"takes a broken connection for none", politenesstest.Disallowed, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", politenesstest.Drop())
	}, func(c *crawler) { c.every(second, "/robots.txt", "/1") }},
	{"gives up on robots.txt and goes on", politenesstest.Disallowed, politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", politenesstest.Slow(time.Minute, politenesstest.Text("")))
	}, func(c *crawler) {
		c.client.Timeout = 10 * second
		c.every(second, "/robots.txt", "/1")
	}},
	{"a copy of robots.txt that is older than a month", politenesstest.Disallowed, politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.get("/robots.txt")
		c.site.RobotsStatus(503)
		time.Sleep(31 * 24 * time.Hour)
		c.every(second, "/robots.txt", "/1")
	}},
}

var polite = []habit{
	{"asks for nothing", "", second1, nil, func(*crawler) {}},
	{"one page a second", "", second1, nil, func(c *crawler) { c.every(second, "/robots.txt", "/1", "/2", "/3") }},
	{
		"from end to start", "",
		politenesstest.Rules{Delay: time.Second, Concurrency: 1},
		func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(3 * second) },
		func(c *crawler) { c.every(second, "/robots.txt", "/1", "/2") },
	},
	{"sites of one suffix", "", politenesstest.Rules{PerSite: 1}, func(w *politenesstest.Web, _ *politenesstest.Site) {
		w.Site("https://x.github.io").Latency(second)
		w.Site("https://y.github.io").Latency(second)
	}, func(c *crawler) { c.together("https://x.github.io/", "https://y.github.io/") }},
	{"hosts side by side", "", politenesstest.Rules{Delay: time.Second, Concurrency: 1}, func(w *politenesstest.Web, _ *politenesstest.Site) {
		w.Site("https://b.example").Page("/", "page")
		w.Site("https://a.example:8443").Page("/", "page")
	}, func(c *crawler) { c.together("/1", "https://b.example/", "https://a.example:8443/") }},
	{"as many as there are slots", "", politenesstest.Rules{Concurrency: 2}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(second) }, func(c *crawler) {
		for range 3 {
			c.together("/1", "/2")
		}
	}},
	{"gives up, and starts the next one", "", serial, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Latency(time.Minute) }, func(c *crawler) {
		c.client.Timeout = second
		c.every(0, "/1", "/2", "/3")
	}},
	{"waits for a Retry-After", "", politenesstest.Rules{}, refusing("60"), func(c *crawler) { c.every(time.Minute, "/busy", "/busy") }},
	{"waits for a date by the clock of the site", "", politenesstest.Rules{}, inAMinute, func(c *crawler) { c.every(time.Minute, "/busy", "/1") }},
	{"was on its way when the host refused", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Latency(second).Handle("/busy", politenesstest.Status(429, "Retry-After", "60"))
	}, func(c *crawler) { c.together("/busy", "/1", "/2") }},
	{"goes on with the other hosts", "", politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		refusing("60")(w, a)
		w.Site("https://b.example").Page("/", "page")
	}, func(c *crawler) { c.every(0, "/busy", "https://b.example/") }},
	{"a 429 that names no time", "", politenesstest.Rules{}, refusing("soon"), func(c *crawler) { c.every(second, "/busy", "/1") }},
	{"a page with a Retry-After", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/busy", politenesstest.Status(200, "Retry-After", "60"))
	}, func(c *crawler) { c.every(second, "/busy", "/1") }},
	{"a 503 that nobody counts", "", politenesstest.Rules{Refusals: []int{429}, Rest: -1}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/busy", politenesstest.Status(503, "Retry-After", "60"))
	}, func(c *crawler) { c.every(second, "/busy", "/1") }},
	{"rests after a bare 503", "", politenesstest.Rules{}, failing, func(c *crawler) { c.every(second, "/down", "/1", "/2") }},
	{"rests longer each time", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Down(syscall.ECONNREFUSED) }, func(c *crawler) {
		for i, rest := range []int{1, 1, 2, 3, 5, 8, 13} {
			c.every(time.Duration(rest)*second, "/"+strconv.Itoa(i))
		}
	}},
	{"finds a page in trouble of its own", "", politenesstest.Rules{}, failing, func(c *crawler) {
		c.every(second, "/down", "/down")
		c.every(0, "/1", "/down", "/2", "/down", "/3")
	}},
	{"finds one that has failed after a 429", "", politenesstest.Rules{}, failingAndBusy, func(c *crawler) {
		c.every(5*second, "/busy")
		c.every(second, "/down1", "/1", "/down2", "/down1")
		c.every(100*ms, "/down1", "/1", "/down1", "/2")
	}},
	{"finds pages that are forbidden", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Handle("/secret/", politenesstest.Status(403)) }, func(c *crawler) {
		c.every(0, "/1", "/secret/1", "/secret/2", "/secret/3", "/secret/4", "/secret/5", "/1", "/secret/6")
	}},
	{"stays away from a ban", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) { a.Handle("/", politenesstest.Status(403)) }, func(c *crawler) {
		c.every(0, "/1", "/2", "/3", "/4", "/5", "/6")
		time.Sleep(time.Minute)
		c.get("/7")
		time.Sleep(2 * time.Minute)
		c.get("/8")
	}},
	{"a Transport, where pages fail and hosts refuse", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/", politenesstest.Text("page")).Handle("/down/", politenesstest.Status(503)).Handle("/secret/", politenesstest.Status(403)).Latency(50*ms).
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(503), politenesstest.Drop(), politenesstest.Status(429), politenesstest.Status(500), politenesstest.Text("page")))
	}, func(c *crawler) {
		t, err := politeness.New(politeness.Config{UserAgent: c.agent, Base: c.client.Transport, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 100 * ms}, Concurrency: 3}})
		if err != nil {
			c.t.Fatal(err)
		}
		c.client.Transport = t
		for i := range 20 {
			n := strconv.Itoa(i)
			c.together("/"+n, "/down/1", "/down/"+n, "/secret/"+n, "/busy", "/more/"+n)
		}
	}},
	{"keeps the crawl-delay", "", second1, robots("User-agent: *", "Crawl-delay: 2.5"), func(c *crawler) { c.every(2500*ms, "/robots.txt", "/1", "/2") }},
	{
		"keeps the delay of its own group", "",
		politenesstest.Rules{},
		robots("User-agent: *", "Crawl-delay: 60", "Allow: /", "User-agent: rudebot", "Crawl-delay: 1", "Allow: /"),
		func(c *crawler) { c.every(second, "/robots.txt", "/1") },
	},
	{"the longer rule allows", "", politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private", "Allow: /private/open"), func(c *crawler) {
		c.every(second, "/robots.txt", "/private/open/1")
	}},
	{"paths have a case", "", politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) { c.every(second, "/robots.txt", "/Private", "/x/private") }},
	{"an end is an end", "", politenesstest.Rules{}, robots("User-agent: *", "Disallow: /*.pdf$"), func(c *crawler) { c.every(second, "/robots.txt", "/paper.pdf?page=2") }},
	{"no robots.txt", "", politenesstest.Rules{}, nil, func(c *crawler) { c.every(second, "/robots.txt", "/1") }},
	{
		"robots.txt that is forbidden", "",
		politenesstest.Rules{},
		func(_ *politenesstest.Web, a *politenesstest.Site) { a.RobotsStatus(403) },
		func(c *crawler) { c.every(second, "/robots.txt", "/1") },
	},
	{
		"stops while robots.txt can't be fetched", "",
		politenesstest.Rules{},
		func(_ *politenesstest.Web, a *politenesstest.Site) { a.Sequence("/robots.txt", 503, 503, 404) },
		func(c *crawler) {
			for status := 503; status == 503; {
				status, _, _ = c.get("/robots.txt")
				time.Sleep(time.Minute)
			}
			c.get("/1")
		},
	},
	{"follows a redirect of robots.txt", "", politenesstest.Rules{}, func(w *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", http.RedirectHandler("https://b.example/rules", http.StatusFound))
		w.Site("https://b.example").Page("/rules", "User-agent: *\nDisallow: /private\n")
	}, func(c *crawler) { c.every(second, "/robots.txt", "/1") }},
	{"stops where it can't follow a redirect of robots.txt", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", http.RedirectHandler("https://b.example/rules", http.StatusFound))
	}, func(c *crawler) {
		c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.get("/robots.txt")
	}},
	{"a redirect of robots.txt that leads nowhere", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", http.RedirectHandler("ftp://a.example/robots.txt", http.StatusFound))
	}, func(c *crawler) {
		c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.every(second, "/robots.txt", "/1")
	}},
	{"a redirect of robots.txt in a circle", "", politenesstest.Rules{}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Handle("/robots.txt", http.RedirectHandler("/rules", http.StatusFound)).Handle("/rules", http.RedirectHandler("/robots.txt", http.StatusFound))
	}, func(c *crawler) {
		c.client.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
			if len(via) == 2 {
				return http.ErrUseLastResponse
			}
			return nil
		}
		c.every(second, "/robots.txt", "/1")
	}},
	{"a copy of robots.txt while the site is ill", "", politenesstest.Rules{}, robots("User-agent: *", "Disallow: /private"), func(c *crawler) {
		c.get("/robots.txt")
		c.site.RobotsStatus(503)
		time.Sleep(20 * 24 * time.Hour)
		c.every(second, "/robots.txt", "/1")
	}},
	{"a Transport, from many goroutines", "", politenesstest.Rules{Delay: time.Second, Concurrency: 1}, func(_ *politenesstest.Web, a *politenesstest.Site) {
		a.Robots("User-agent: *\nCrawl-delay: 2\nDisallow: /private\n").Latency(300*ms).Dial(700*ms).
			Handle("/old", http.RedirectHandler("/new", http.StatusFound)).
			Handle("/busy", politenesstest.InTurn(politenesstest.Status(429, "Retry-After", "60"), politenesstest.Text("page")))
	}, func(c *crawler) {
		t, err := politeness.New(politeness.Config{UserAgent: c.agent, Base: c.client.Transport, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: time.Second}}})
		if err != nil {
			c.t.Fatal(err)
		}
		c.client.Transport = t
		c.together("/1", "/private", "/old", "/busy", "http://a.example/", "https://A.example.:443/2", "/busy", "/3")
	}},
}
