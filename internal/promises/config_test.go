package promises_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/memory"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// problemsOf returns the lines of New's error.
func problemsOf(cfg politeness.Config) []string {
	_, err := politeness.New(cfg)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// mustSay fails unless there is one problem, which begins with the field and says all of words.
func mustSay(t *testing.T, problems []string, field string, words ...string) {
	t.Helper()
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "politeness: "+field+": ") {
		t.Errorf("%d problems %q, want one of %s", len(problems), problems, field)
		return
	}
	for _, word := range words {
		if !strings.Contains(problems[0], word) {
			t.Errorf("%q doesn't say %q", problems[0], word)
		}
	}
}

func TestLimitsOfAConfigHold(t *testing.T) {
	cfg := politeness.Bulk(agent)
	cfg.Hosts.Concurrency = 1
	cfg.Hosts.Delay = hostlimit.Delay{Min: 2 * time.Second}
	cfg.Hosts.MaxWait = time.Minute
	virtually(t, cfg, func(b *bubble) {
		b.site.Handle("/", http.HandlerFunc(everywhere)).Handle("/busy", politenesstest.Status(429, "Retry-After", "3600"))
		b.fetchAll(10)
		b.web.Check(b, politenesstest.Rules{Delay: 2 * time.Second, Concurrency: 1})
		b.mustGet("https://example.com/1", 200)
		_, _ = b.get("https://example.com/busy")
		_, err := b.get("https://example.com/2")
		refused(b.T, err, politeness.StageTurn, politeness.ErrBlocked)
	})
}

func TestSpendOfAConfigHolds(t *testing.T) {
	virtually(t, politeness.Config{Spend: budget.Limits{Pages: 2}}, func(b *bubble) {
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", 200)
		b.mustGet("https://example.com/", 200)
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

// A preset that is used twice makes two crawls: what one spends or is told to keep away from says
// nothing to the other.
func TestAConfigCanBeUsedForTwoCrawls(t *testing.T) {
	cfg := politeness.Bulk(agent)
	cfg.Spend.Pages = 3
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		cfg := cfg
		cfg.UserAgent, cfg.Base = agent, b.web
		other := &http.Client{Transport: mustNew(b.T, cfg)}
		for range 3 {
			b.mustGet("https://example.com/", 200)
		}
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
		before := time.Now()
		for range 3 {
			if status, err := fetch(b.Context(), other, "https://example.com/"); err != nil || status != 200 {
				b.Errorf("status %d, %v", status, err)
			}
		}
		// robots.txt is its first start and has waited for nobody: three gaps of 200 ms.
		if took := time.Since(before); took != 600*time.Millisecond {
			b.Errorf("the second crawl took %v, want 600 ms", took)
		}
	})
}

// A preset sets Hosts and Spend; who shares a limiter or a budget sets these on top.
func TestLimiterAndBudgetGoBeforeHostsAndSpend(t *testing.T) {
	cfg := politeness.SiteAudit(agent)
	cfg.Limiter = limiter(t, hostlimit.Config{Delay: hostlimit.Delay{Min: 7 * time.Second}})
	cfg.Budget = budget.New(budget.Limits{Pages: 1})
	cfg.Hosts.Delay, cfg.Spend.Bytes = hostlimit.Delay{Min: -1}, -1 // without effect
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.mustGet("https://example.com/", 200)
		if waited := time.Since(b.began); waited != 7*time.Second {
			b.Errorf("a gap of %v, want 7 s", waited)
		}
		_, err := b.get("https://example.com/")
		refused(b.T, err, politeness.StageBudget, politeness.ErrBudget)
	})
}

func TestNewNamesEachFieldOfLimitsSpendAndRobots(t *testing.T) {
	problems := problemsOf(politeness.Config{
		UserAgent: agent,
		Hosts:     hostlimit.Config{Concurrency: -1, Delay: hostlimit.Delay{Min: -1}, MaxWait: -1, Backoff: backoff.Refusals{Policy: backoff.Fibonacci{Cap: -1}, Statuses: []int{99}}},
		Spend:     budget.Limits{Pages: -1, WarnAt: 80},
		Robots:    robotscache.Config{TTL: -1, MaxBytes: -1},
	})
	for _, want := range []string{
		"Config.Hosts: Concurrency: ", "Config.Hosts: Delay.Min: ", "Config.Hosts: MaxWait: ", "Config.Hosts: Backoff: Policy: ", "Config.Hosts: Backoff: Statuses: ",
		"Config.Spend: budget: Limits.Pages ", "Config.Spend: budget: Limits.WarnAt ", "Config.Robots: robotscache: Config.TTL: ",
		"Config.Robots: robotscache: Config.MaxBytes: ",
	} {
		n := 0
		for _, problem := range problems {
			if strings.HasPrefix(problem, "politeness: "+want) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d lines begin with %q, want 1:\n%s", n, want, strings.Join(problems, "\n"))
		}
	}
	if len(problems) != 9 {
		t.Errorf("%d problems, want 9:\n%s", len(problems), strings.Join(problems, "\n"))
	}
}

// TestNewRefusesSecondsThatAreNanoseconds: who writes TTL: 3600 means an hour.
func TestNewRefusesSecondsThatAreNanoseconds(t *testing.T) {
	problems := problemsOf(politeness.Config{
		UserAgent: agent,
		Robots:    robotscache.Config{TTL: 3600, DenyTTL: 300, Timeout: 30},
		Spend:     budget.Limits{Duration: 60},
		Hosts: hostlimit.Config{
			LeaseTTL: 3600,
			Backoff:  backoff.Refusals{Policy: backoff.Doubling{Cap: 86400}, Forgive: 1800},
		},
	})
	for _, want := range []string{
		"Robots: robotscache: Config.TTL: 3600ns are nanoseconds: did you mean 3600s?", "Config.DenyTTL: 300ns are",
		"Config.Timeout: 30ns are", "Spend: budget: Limits.Duration: 60ns are", "Hosts: LeaseTTL: 3600ns are",
		"Policy: Cap: 86400ns are", "Forgive: 1800ns are",
	} {
		if !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%q don't say %q", problems, want)
		}
	}
}

func TestNewRefusesNilsInDisguise(t *testing.T) {
	for _, test := range []struct {
		field string
		cfg   politeness.Config
	}{
		{"Limiter", politeness.Config{Limiter: (*memory.Limiter)(nil)}},
		{"Budget", politeness.Config{Budget: (*budget.Memory)(nil)}},
		{"Base", politeness.Config{Base: (*http.Transport)(nil)}},
		{"Base", politeness.Config{Base: (*politeness.Transport)(nil)}},
		{"Base", politeness.Config{Base: roundTripFunc(nil)}},
		{"Base", politeness.Config{Base: roundTripMap(nil)}},
		{"Evidence", politeness.Config{Evidence: (*evidence.Recorder)(nil)}},
		{"Evidence", politeness.Config{Evidence: evidence.Func(nil)}},
	} {
		test.cfg.UserAgent = agent
		mustSay(t, problemsOf(test.cfg), "Config."+test.field, "holds a nil")
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

type roundTripMap map[string]http.RoundTripper

func (m roundTripMap) RoundTrip(req *http.Request) (*http.Response, error) {
	return m[req.URL.Host].RoundTrip(req)
}

// unwrapper tells what it wraps.
type unwrapper struct{ http.RoundTripper }

func (u unwrapper) Unwrap() http.RoundTripper { return u.RoundTripper }

func TestNewRefusesATransportOverATransport(t *testing.T) {
	inner := mustNew(t, politeness.Config{UserAgent: agent})
	for name, base := range map[string]http.RoundTripper{
		"directly":         inner,
		"in a wrapper":     unwrapper{inner},
		"in two of them":   unwrapper{unwrapper{inner}},
		"with a pointer":   &unwrapper{inner},
		"as a nil in them": unwrapper{(*politeness.Transport)(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			mustSay(t, problemsOf(politeness.Config{UserAgent: agent, Base: base}), "Config.Base", "*politeness.Transport")
		})
	}
	for _, base := range []http.RoundTripper{unwrapper{http.DefaultTransport}, unwrapper{nil}, politenesstest.NewWeb()} {
		if problems := problemsOf(politeness.Config{UserAgent: agent, Base: base}); problems != nil {
			t.Errorf("%T: %q", base, problems)
		}
	}
}

// A program that has made its http.DefaultTransport polite would pace each request twice with a
// second Transport whose Base is nil.
func TestNewRefusesAPoliteDefaultTransportAsBase(t *testing.T) {
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = mustNew(t, politeness.Config{UserAgent: agent})
	mustSay(t, problemsOf(politeness.Config{UserAgent: agent}), "Config.Base", "http.DefaultTransport")
	if problems := problemsOf(politeness.Config{UserAgent: agent, Base: before}); problems != nil {
		t.Errorf("%q", problems)
	}
}

func TestNewRefusesAUserAgentThatIsCutShort(t *testing.T) {
	for ua, product := range map[string]string{
		"my bot 1.0 (+https://example.com/bot)":                                    "my",
		"my bot/1.0 (+https://example.com/bot)":                                    "my",
		"Example Bot (bot@example.com)":                                            "Example",
		"ExampleBot 1.0 (bot@example.com)":                                         "ExampleBot",
		"ExampleBot v1.0 bot@example.com":                                          "ExampleBot",
		"ExampleBot /1.0 (bot@example.com)":                                        "ExampleBot",
		"Exämple/1.0 (bot@example.com)":                                            "Ex",
		"Example:Bot/1.0 (bot@example.com)":                                        "Example",
		"bot@example.com":                                                          "bot",
		"https://example.com/bot":                                                  "https",
		"Mozilla/5.0 (compatible; Example Bot/1.0; +https://example.com/bot)":      "Example",
		"Mozilla/5.0 (compatible; my bot 1.0; +https://example.com/bot)":           "my",
		"my my/1.0 (bot@example.com)":                                              "my",
		"my my my bot (bot@example.com)":                                           "my",
		"my" + strings.Repeat(" my", 1<<18) + " bot (bot@example.com)":             "my", // at a bounded cost
		"Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/slurp)": "Yahoo!",
	} {
		mustSay(t, problemsOf(politeness.Config{UserAgent: ua}), "Config.UserAgent",
			fmt.Sprintf("knows the crawler as %q", product), "ExampleBot/1.0 (+https://example.com/bot; bot@example.com)", "10.1.5")
	}
	for _, ua := range []string{
		agent,
		"ExampleBot (+https://example.com/bot)",
		"ExampleBot bot@example.com",
		"ExampleBot +https://example.com/bot",
		"ExampleBot <mailto:bot@example.com>",
		"ExampleBot; +https://example.com/bot",
		"ExampleBot(+https://example.com/bot)",
		" ExampleBot/1.0 (+https://example.com/bot)",
		"ExampleBot/1.0 libfoo/2.1 Go-http-client/2.0 (bot@example.com)",
		"ExampleBot/1.0 beta, see https://example.com/bot",
		"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
		"MJ12bot/v1.4.8 (http://mj12bot.com/)",
		"CCBot/2.0 (https://commoncrawl.org/faq/)",
		"Mozilla/5.0 (compatible; ExampleBot/1.0; +https://example.com/bot)",
		"Mozilla/5.0 (compatible; ExampleBot; +https://example.com/bot)",
		"Mozilla/5.0 (compatible; +https://example.com/bot; ExampleBot)",
		"Mozilla/5.0 (compatible; archive.org_bot +http://archive.org/details/archive.org_bot)",
		"Mozilla/5.0 (compatible; special_archiver/3.1.1 +http://www.archive.org/details/archive.org_bot)",
		"Mozilla/5.0 (compatible; Moz; bot@example.com)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/99 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
	} {
		if problems := problemsOf(politeness.Config{UserAgent: ua}); problems != nil {
			t.Errorf("%q: %q", ua, problems)
		}
	}
}

// TestNewRefusesABrowsersName: no robots.txt could address the crawler.
func TestNewRefusesABrowsersName(t *testing.T) {
	for _, ua := range []string{
		"Mozilla/5.0 (X11; Linux x86_64; +https://example.com/bot)",
		"Mozilla/5.0 (Macintosh) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
	} {
		mustSay(t, problemsOf(politeness.Config{UserAgent: ua}), "Config.UserAgent", "names no crawler", "compatible; ExampleBot/1.0")
	}
}

func TestAnEmptyUserAgentIsOneProblem(t *testing.T) {
	for _, ua := range []string{"", " ", "\t"} {
		for _, from := range []string{"", "bot@example.com"} {
			mustSay(t, problemsOf(politeness.Config{UserAgent: ua, From: from}), "Config.UserAgent", "required")
		}
	}
	mustSay(t, problemsOf(politeness.Config{UserAgent: "(bot@example.com)"}), "Config.UserAgent", "product token")
	mustSay(t, problemsOf(politeness.Config{UserAgent: agent + "\n"}), "Config.UserAgent", "control")
}

func TestFromIsTheContactOfAUserAgentThatHasNone(t *testing.T) {
	if problems := problemsOf(politeness.Config{UserAgent: "ExampleBot/1.0", From: "bot@example.com"}); problems != nil {
		t.Errorf("%q", problems)
	}
	if problems := problemsOf(politeness.Config{UserAgent: "ExampleBot/1.0", From: "nobody"}); len(problems) != 2 {
		t.Errorf("%q, want a problem of From and, as that is no contact, one of UserAgent", problems)
	}
	// A strict User-Agent holds its mail address itself.
	cfg := politeness.Conservative("ExampleBot/1.0")
	cfg.From = "bot@example.com"
	mustSay(t, problemsOf(cfg), "Config.UserAgent", "mail address")
}

func TestAConfigCanBePrintedAndCompared(t *testing.T) {
	cfg := politeness.Bulk(agent)
	cfg.Hosts.MaxWait = time.Minute
	cfg.Spend.Pages = 500
	printed := fmt.Sprintf("%+v", cfg)
	for _, want := range []string{
		"UserAgent:" + agent, "Hosts:{Concurrency:2 MaxInFlight:64 PerSite:0 Delay:{Min:200ms Max:200ms Adaptive:Longest(Learned, Slower(1))", "MaxWait:1m0s",
		"Backoff:{Unit:1s Cap:10m0s", "Spend:{Pages:500 ", "Limiter:<nil>", "Budget:<nil>",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%s\ndoesn't show %s", printed, want)
		}
	}
	if a, b := politeness.Bulk(agent), politeness.Bulk(agent); !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, cfg) {
		t.Errorf("two presets aren't one: %+v, %+v", a, b)
	}
}

// A loggingStore can't be compared: its log is a func.
type loggingStore struct {
	hostlimit.Store
	log any
}

// TestNewTakesAStoreThatCantBeCompared, shared with Hosts as WithState's doc says.
func TestNewTakesAStoreThatCantBeCompared(t *testing.T) {
	cfg := politeness.Config{UserAgent: agent}
	cfg.Hosts.Store = loggingStore{hostlimit.Dir(t.TempDir()), t.Log}
	var err error
	if cfg.Limiter, err = memory.New(cfg.Hosts); err != nil {
		t.Fatal(err)
	}
	if problems := problemsOf(cfg); problems != nil {
		t.Errorf("%q", problems)
	}
}

// TestAnErrorWithoutAReasonPrints, as those that tests of crawlers make.
func TestAnErrorWithoutAReasonPrints(t *testing.T) {
	for _, err := range []error{&politeness.Error{Stage: politeness.StageRule}, &hostlimit.Error{Key: "example.com"}} {
		if text := err.Error(); !strings.Contains(text, "<nil>") {
			t.Errorf("%q", text)
		}
	}
}
