package promises_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/budget"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// read fetches url, and returns the status and the body.
func (b *bubble) read(method, url string) (status int, body string) {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.Errorf("%s %s: %v", method, url, err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.ContentLength != int64(len(text)) {
		b.Errorf("%d of %d bytes, error %v", len(text), resp.ContentLength, err)
	}
	return resp.StatusCode, string(text)
}

const someRules = "User-agent: *\nCrawl-delay: 2\nDisallow: /private\n"

func TestTheProgramsOwnRobotsTxtIsAnsweredFromTheCopy(t *testing.T) {
	cfg := politeness.Config{AnswerRobots: true, Budget: budget.New(budget.Limits{Pages: 1})}
	virtually(t, cfg, func(b *bubble) {
		b.site.Robots(someRules).Page("/", "page").Latency(time.Second)
		var group sync.WaitGroup
		for range 20 { // the first fetches it, and the others join
			group.Go(func() {
				if status, body := b.read(http.MethodGet, "https://example.com/robots.txt"); status != http.StatusOK || body != someRules {
					b.Errorf("status %d, %q", status, body)
				}
			})
		}
		group.Wait()
		if took := b.elapsed(); took > 2*time.Second {
			b.Errorf("took %v", took)
		}
		b.mustGet("https://example.com/", http.StatusOK) // the page of the budget is left
		if got := strings.Join(b.asked(), " "); got != "https://example.com/robots.txt https://example.com/" {
			b.Errorf("asked: %s", got)
		}
	})
}

func TestTheProgramsOwnRobotsTxtIsSentWhereTheCopyIsNoAnswer(t *testing.T) {
	const url = "https://example.com/robots.txt"
	for name, c := range map[string]struct {
		cfg    politeness.Config
		method string
		url    string
		status int // of the site's robots.txt; 0: there is one
		want   int // status for the program
		sent   int // requests beside the fetch
	}{
		"not asked for":     {politeness.Config{}, http.MethodGet, url, 0, 200, 1},
		"HEAD":              {politeness.Config{AnswerRobots: true}, http.MethodHead, url, 0, 200, 1},
		"a query":           {politeness.Config{AnswerRobots: true}, http.MethodGet, url + "?v=2", 0, 200, 1},
		"another path":      {politeness.Config{AnswerRobots: true}, http.MethodGet, "https://example.com/a/robots.txt", 0, 404, 1},
		"unreachable":       {politeness.Config{AnswerRobots: true, Robots: robotscache.Config{OnUnreachable: robotscache.Allow}}, http.MethodGet, url, 500, 500, 1},
		"robots ignored":    {politeness.Config{AnswerRobots: true, DangerouslyIgnoreRobots: true}, http.MethodGet, url, 0, 200, 0},
		"there is none":     {politeness.Config{AnswerRobots: true}, http.MethodGet, url, 404, 404, 0},
		"it is forbidden":   {politeness.Config{AnswerRobots: true}, http.MethodGet, url, 403, 403, 0},
		"by the text alone": {politeness.Config{Robots: robotscache.Config{KeepText: true}}, http.MethodGet, url, 0, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, c.cfg, func(b *bubble) {
				if c.status == 0 {
					b.site.Robots(someRules)
				} else {
					b.site.RobotsStatus(c.status)
				}
				resp, err := b.client.Do(newRequest(b, c.method, c.url))
				if err != nil {
					b.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != c.want || len(b.asked()) != 1+c.sent {
					b.Errorf("status %d, asked %v; want status %d and %d requests", resp.StatusCode, b.asked(), c.want, 1+c.sent)
				}
			})
		})
	}
}

func newRequest(b *bubble, method, url string) *http.Request {
	req, err := http.NewRequestWithContext(b.Context(), method, url, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	return req
}

// The text is there after a revalidation and from a Store, too, and an answer leaves an honest log.
func TestTheCopyAnswersAfterARevalidation(t *testing.T) {
	var log strings.Builder
	lines := evidence.JSONLines(&log)
	virtually(t, politeness.Config{AnswerRobots: true}, func(b *bubble) {
		site := robotscache.Dir(b.TempDir())
		for range 3 {
			cfg := politeness.Config{
				UserAgent:    agent,
				Base:         b.web,
				AnswerRobots: true,
				Evidence:     lines,
				Robots:       robotscache.Config{Store: site, RecordText: true},
			}
			b.site.Robots(someRules)
			b.client = &http.Client{Transport: mustNew(b.T, cfg)}
			for range 3 {
				if status, body := b.read(http.MethodGet, "https://example.com/robots.txt"); status != http.StatusOK || body != someRules {
					b.Errorf("status %d, %q", status, body)
				}
				time.Sleep(90 * time.Minute)
			}
		}
		if n := len(b.asked()); n > 9 {
			b.Errorf("%d requests", n)
		}
	})
	if err := lines.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(strings.NewReader(log.String()))
	if err != nil || !report.OK() {
		t.Errorf("error %v, %s\n%s", err, report, log.String())
	}
}
