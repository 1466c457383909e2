package politeness_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/politenesstest"
)

// A site audit reports every decision: what was asked, by which rule, and how it
// went on where robots.txt could not be had.
func ExampleSiteAudit() {
	web := politenesstest.NewWeb() // in place of the internet
	web.Site("https://example.com").Robots("User-agent: *\nDisallow: /admin\n").Page("/", "page")
	web.Site("https://down.example").RobotsStatus(503).Page("/", "page")

	cfg := politeness.SiteAudit("AuditBot/1.0 (+https://example.com/bot; bot@example.com)")
	cfg.Base = web
	cfg.Evidence = evidence.Func(func(_ context.Context, d evidence.Decision) {
		switch d.Type {
		case evidence.RobotsAllowed, evidence.BlockedByRobots:
			fmt.Printf("%s %s rule=%q confidence=%q\n", d.Type, d.URL, d.MatchedRule, d.Confidence)
		}
	})
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for _, url := range []string{"https://example.com/", "https://example.com/admin", "https://down.example/"} {
		resp, err := client.Get(url)
		if err != nil {
			continue // the evidence says why
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	// Output:
	// robots_allowed https://example.com/ rule="" confidence=""
	// blocked_by_robots https://example.com/admin rule="Disallow: /admin" confidence=""
	// robots_allowed https://down.example/ rule="" confidence="low"
}

// A conservative crawler fetches public pages only, and says who it is.
func ExampleConservative() {
	cfg := politeness.Conservative("ResearchBot/1.0 (+https://example.edu/bot; bot@example.edu)")
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	_, err = client.Post("https://example.com/search", "text/plain", nil)
	fmt.Println(errors.Is(err, politeness.ErrDisallowed), err)
	// Output:
	// true Post "https://example.com/search": politeness: example.com: rule: public pages only: method POST is neither GET nor HEAD
}

// Without a mail address nobody can complain, so New refuses.
func ExampleConservative_incorrect() {
	_, err := politeness.New(politeness.Conservative("ResearchBot/1.0 (+https://example.edu/bot)"))
	fmt.Println(err)
	// Output:
	// politeness: Config.UserAgent: "ResearchBot/1.0 (+https://example.edu/bot)" must contain a product, a version and a mail address, such as ExampleBot/1.0 (bot@example.com)
}

// A preset is a plain value: what doesn't fit is changed.
func ExampleConfig() {
	cfg := politeness.Bulk("BulkBot/1.0 (+https://example.com/bot; bot@example.com)")
	cfg.Hosts.MaxWait = time.Minute // a longer wait is refused, with RetryAt
	cfg.Spend.Pages = 500
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	fmt.Printf("%T, %d concurrent per host, %d pages\n", client.Transport, cfg.Hosts.Concurrency, cfg.Spend.Pages)
	// Output:
	// *politeness.Transport, 2 concurrent per host, 500 pages
}

// A bulk crawler says which content types it wants; what isn't wanted is left
// unread.
func ExampleBulk() {
	web := politenesstest.NewWeb()
	web.Site("https://example.com").Handle("/film", politenesstest.Bytes(1<<30)).Page("/", "<p>a page")

	cfg := politeness.Bulk("BulkBot/1.0 (+https://example.com/bot; bot@example.com)")
	cfg.Base = web
	cfg.Response.Accept = []string{"text/*"}
	transport, err := politeness.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	for _, url := range []string{"https://example.com/", "https://example.com/film"} {
		resp, err := client.Get(url)
		if err != nil {
			fmt.Println(errors.Is(err, politeness.ErrContentType), err)
			continue
		}
		n, _ := io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status, n, "bytes")
	}
	// Output:
	// 200 OK 9 bytes
	// true Get "https://example.com/film": politeness: example.com: response: content type not accepted: application/octet-stream
}

// The delay follows the host: it can be read off the Config.
func ExampleResponsive() {
	cfg := politeness.Responsive("TutorialBot/1.0 (+https://example.com/bot; bot@example.com)")
	delay := cfg.Hosts.Delay
	fmt.Printf("max(random in [%v, %v], crawl-delay, %v)\n", delay.Min, delay.Max, delay.Adaptive)
	// Output:
	// max(random in [500ms, 1.5s], crawl-delay, Longest(Learned, Squared))
}

// The person who runs a crawler sets its limits from outside, as a container does.
func ExampleConfig_WithEnv_defaults() {
	os.Setenv("USER_AGENT", "AuditBot/1.0 (+https://example.com/bot; bot@example.com)")
	os.Setenv("MAX_PAGES", "50")
	os.Setenv("MAX_SCAN_TIME_MINUTES", "10")
	os.Setenv("ROBOTS_DEFAULT_DELAY_SECONDS", "1.5")
	defer unset("USER_AGENT", "MAX_PAGES", "MAX_SCAN_TIME_MINUTES", "ROBOTS_DEFAULT_DELAY_SECONDS")

	cfg, err := politeness.Config{}.WithEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.UserAgent)
	fmt.Println(cfg.Spend.Pages, "pages in", cfg.Spend.Duration)
	fmt.Println(cfg.Hosts.Delay.Min, "between two starts on a host")
	// Output:
	// AuditBot/1.0 (+https://example.com/bot; bot@example.com)
	// 50 pages in 10m0s
	// 1.5s between two starts on a host
}

// Values that can't be read are errors, all of them at once.
func ExampleConfig_WithEnv_incorrect() {
	os.Setenv("MAX_PAGES", "fifty")
	os.Setenv("ROBOTS_TTL_SECONDS", "1h")
	defer unset("MAX_PAGES", "ROBOTS_TTL_SECONDS")

	_, err := politeness.Config{}.WithEnv()
	fmt.Println(err)
	// Unordered output:
	// politeness: environment variable ROBOTS_TTL_SECONDS="1h" is not a positive number of seconds, at most 86400
	// politeness: environment variable MAX_PAGES="fifty" is not a whole number of at least 1
}

// A preset is changed by the environment through WithEnv.
func ExampleConfig_WithEnv() {
	os.Setenv("MAX_PAGES", "20")
	defer unset("MAX_PAGES")

	cfg, err := politeness.SiteAudit("AuditBot/1.0 (+https://example.com/bot; bot@example.com)").WithEnv()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Spend.Pages, "pages in", cfg.Spend.Duration)
	// Output:
	// 20 pages in 1h0m0s
}

func unset(names ...string) {
	for _, name := range names {
		os.Unsetenv(name)
	}
}
