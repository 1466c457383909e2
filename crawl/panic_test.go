package crawl_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/revisit"
)

// A mine makes functions panic: at their calls of the given numbers, counted by name.
type mine struct {
	mu    sync.Mutex
	blows func(name string, n int) bool
	calls map[string]int
	blown map[string]int
	known bool // for Config.Known, without Follow
}

func (m *mine) may(name string) {
	m.mu.Lock()
	m.calls[name]++
	blow := m.blows(name, m.calls[name])
	if blow {
		m.blown[name]++
	}
	m.mu.Unlock()
	if blow {
		panic("boom: " + name)
	}
}

type minedQueue struct {
	*shared
	mine *mine
}

func (q minedQueue) Add(ctx context.Context, reqs []crawl.Request) (added, noRoom int, err error) {
	q.mine.may("Queue.Add")
	return q.shared.Add(ctx, reqs)
}

func (q minedQueue) Take(ctx context.Context, hosts []string, n int) ([]crawl.Request, error) {
	q.mine.may("Queue.Take")
	return q.shared.Take(ctx, hosts, n)
}

func (q minedQueue) Done(ctx context.Context, results []crawl.Result) error {
	q.mine.may("Queue.Done")
	return q.shared.Done(ctx, results)
}

func (q minedQueue) Hosts(ctx context.Context, n int) (hosts []string, open bool, err error) {
	q.mine.may("Queue.Hosts")
	return q.shared.Hosts(ctx, n)
}

func (q minedQueue) Owns(host string) bool {
	q.mine.may("Owner.Owns")
	return q.shared.Owns(host)
}

type minedJar struct {
	http.CookieJar
	mine *mine
}

func (j minedJar) Cookies(u *url.URL) []*http.Cookie {
	j.mine.may("Jar")
	return j.CookieJar.Cookies(u)
}

type minedEvidence struct{ mine *mine }

func (e minedEvidence) Record(context.Context, evidence.Decision) { e.mine.may("Evidence.Record") }
func (e minedEvidence) Err() error                                { e.mine.may("Evidence.Err"); return nil }

// mined is a crawl of three hosts, each of whose functions may panic.
func mined(t *testing.T, m *mine, queue bool) (*rig, []string) {
	r := newRig()
	var urls []string
	for i := range 3 {
		host := fmt.Sprintf("https://%c.example", 'a'+i)
		site := r.Site(host)
		links := ""
		for j := range 60 {
			path := fmt.Sprintf("/%d", j)
			links += fmt.Sprintf(`<a href="%s">%d</a>`, path, j)
			site.Handle(path, page(`<a href="/">home</a><a href="/1?more">more</a>`))
			urls = append(urls, host+path)
		}
		site.Handle("/", page(links)).Handle("/7", politenesstest.Status(429))
		urls = append(urls, host+"/")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.politeness.HostKey = func(req *http.Request) string { m.may("HostKey"); return req.URL.Host }
	r.politeness.Refuse = func(*http.Request) error { m.may("Refuse"); return nil }
	r.politeness.IsRefusal = func(*http.Response) error { m.may("IsRefusal"); return nil }
	r.politeness.Evidence = minedEvidence{m}
	r.politeness.Hosts.Override = func(string) (hostlimit.Limits, bool) { m.may("Override"); return hostlimit.Limits{}, false }
	r.crawl.Client = &http.Client{Jar: minedJar{jar, m}}
	r.crawl.Visit = func(context.Context, *crawl.Page) error { m.may("Visit"); return nil }
	r.crawl.Follow = func(*crawl.Page, crawl.Link) bool { m.may("Follow"); return true }
	r.crawl.Prepare = func(crawl.Request, *http.Request) error { m.may("Prepare"); return nil }
	if m.known {
		r.crawl.Follow = nil
		r.crawl.Known = func(context.Context, string) (crawl.Validators, error) {
			m.may("Known")
			return crawl.Validators{}, nil
		}
	} else if !queue {
		r.crawl.Revisit = revisit.Schedule{Min: time.Hour}
		r.crawl.Compare = func(p *crawl.Page) []byte { m.may("Compare"); return p.Compared() }
	}
	r.crawl.Discover = listed(func(context.Context, string) []crawl.Request { m.may("Discover"); return nil })
	r.crawl.Done = func(crawl.Result) { m.may("Done") }
	r.crawl.Progress = func(crawl.Progress) { m.may("Progress") }
	if queue {
		r.crawl.Queue = minedQueue{&shared{store: newStore(), lost: map[string]bool{}}, m}
	}
	return r, urls
}

// TestPanicsEndNoCrawl, whichever function panics, in whichever goroutine: each URL has its outcome,
// and no goroutine is left.
func TestPanicsEndNoCrawl(t *testing.T) {
	t.Run("known pages", func(t *testing.T) { panicsEndNoCrawl(t, true) })
	t.Run("pages that are asked for again", func(t *testing.T) { panicsEndNoCrawl(t, false) })
}

// panicsEndNoCrawl crawls with Config.Known, or with Follow and Revisit.
func panicsEndNoCrawl(t *testing.T, known bool) {
	t.Helper()
	_ = logged(func() {
		synctest.Test(t, func(t *testing.T) {
			m := &mine{calls: map[string]int{}, blown: map[string]int{}, blows: func(_ string, n int) bool { return n%11 == 2 }}
			m.known = known
			r, urls := mined(t, m, false)
			s := r.run(t.Context(), t, urls...)
			total := 0
			for _, n := range m.blown {
				total += n
			}
			if s.Outcomes[crawl.Left] != 0 || s.Visited() == 0 || total < 150 {
				t.Errorf("%d panics, %v, summary %v", total, m.blown, s)
			}
			names := []string{
				"HostKey", "Refuse", "IsRefusal", "Evidence.Record", "Evidence.Err", "Override", "Visit", "Prepare", "Discover", "Done", "Progress", "Jar",
			}
			if known {
				names = append(names, "Known")
			} else {
				names = append(names, "Follow", "Compare")
			}
			for _, name := range names {
				if m.blown[name] == 0 {
					t.Errorf("%s never panicked", name)
				}
			}
		})
	})
}

// TestAPanicOfTheQueueEndsTheCrawl as an error does: Run returns it.
func TestAPanicOfTheQueueEndsTheCrawl(t *testing.T) {
	for _, name := range []string{"Queue.Add", "Queue.Take", "Queue.Done", "Queue.Hosts", "Owner.Owns"} {
		for at := range 12 {
			if at == 0 || at > 2 && name != "Owner.Owns" { // which is called at each request
				continue
			}
			t.Run(fmt.Sprint(name, " ", at), func(t *testing.T) {
				_ = logged(func() {
					synctest.Test(t, func(t *testing.T) {
						m := &mine{calls: map[string]int{}, blown: map[string]int{}, blows: func(of string, n int) bool { return of == name && n == at }}
						r, urls := mined(t, m, true)
						r.crawl.Transport = mustTransport(t, r.politeness)
						c, err := crawl.New(r.crawl)
						if err != nil {
							t.Fatal(err)
						}
						began := time.Now()
						_, err = c.Run(t.Context(), urls...)
						if err == nil || !strings.Contains(err.Error(), "boom: "+name) || time.Since(began) > time.Hour {
							t.Errorf("Run returns %v after %v", err, time.Since(began))
						}
					})
				})
			})
		}
	}
}
