package promises_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/politenesstest"
	"github.com/go-politeness/politeness/robots/robotscache"
)

// A rule over paths can't be passed by a query, nor by escapes.
func TestRefusePathsSeesThroughQueriesAndEscapes(t *testing.T) {
	refuse := politeness.RefusePaths(regexp.MustCompile(`^/login$`), regexp.MustCompile(`[?&]page=\d{3}`), regexp.MustCompile(`/a%2Fb`))
	for url, want := range map[string]bool{
		"https://example.com/login":             true,
		"https://example.com/login?next=%2F":    true,
		"https://example.com/%6cogin":           true,
		"https://example.com/login/help":        false,
		"https://example.com/":                  false,
		"https://example.com":                   false,
		"https://example.com/list?page=100":     true,
		"https://example.com/list?x=1&page=100": true,
		"https://example.com/list?page=10":      false,
		"https://example.com/a%2Fb":             true,
		"https://example.com/a/b":               false,
	} {
		req, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := refuse(req); (err != nil) != want {
			t.Errorf("%s: %v, want a refusal: %t", url, err, want)
		}
	}
}

// refusePrivate is a rule against the address that metadata services have.
func refusePrivate(req *http.Request) error {
	if req.URL.Hostname() == "169.254.169.254" {
		return errPrivate
	}
	return nil
}

var errPrivate = errors.New("an address of our own network")

// TestRefuseSeesEveryHopOfRobotsTxt: a robots.txt can't lead where a page may not.
func TestRefuseSeesEveryHopOfRobotsTxt(t *testing.T) {
	cfg := politeness.Config{Refuse: refusePrivate, Robots: robotscache.Config{RecordText: true}}
	virtually(t, cfg, func(b *bubble) {
		b.web.Site("http://169.254.169.254").Page("/meta", "secret")
		b.site.Handle("/robots.txt", politenesstest.Status(302, "Location", "http://169.254.169.254/meta")).Page("/", "page")
		for range 2 { // the refusal is answersOldRedirects as any robots.txt that can't be had
			_, err := b.get("https://example.com/")
			var refused *politeness.Error
			if !errors.Is(err, errPrivate) || !errors.Is(err, politeness.ErrDisallowed) || !errors.Is(err, politeness.ErrUnreachable) ||
				!errors.As(err, &refused) || refused.Stage != politeness.StageRobots || refused.RetryAt.IsZero() {
				b.Errorf("got %v", err)
			}
		}
		if n := len(b.web.Requests()); n != 1 {
			b.Errorf("%d requests: %v", n, b.web.Requests())
		}
		blocked := b.log.Decisions(evidence.BlockedByRule)
		if len(blocked) != 1 || blocked[0].URL != "http://169.254.169.254/robots.txt" || !blocked[0].RobotsTxt || blocked[0].Reason != errPrivate.Error() {
			b.Errorf("%+v", blocked)
		}
		for _, d := range b.log.Decisions() {
			if d.Text != "" {
				b.Errorf("the body is on record: %+v", d)
			}
		}
	})
}

// TestRefuseSeesRobotsTxtItself: who may not be asked for a page isn't asked for robots.txt either.
func TestRefuseSeesRobotsTxtItself(t *testing.T) {
	var log bytes.Buffer
	sink := evidence.JSONLines(&log)
	synctest.Test(t, func(t *testing.T) {
		web := politenesstest.NewWeb()
		web.Site("http://169.254.169.254").Page("/", "secret")
		web.Site("https://example.com").Handle("/robots.txt", politenesstest.Status(302, "Location", "http://169.254.169.254/")).Page("/", "page")
		tr := mustNew(t, politeness.Config{
			UserAgent: agent, Base: web, Refuse: refusePrivate, Evidence: sink,
			Robots: robotscache.Config{OnUnreachable: robotscache.Allow},
		})
		client := &http.Client{Transport: tr}
		if _, err := fetch(t.Context(), client, "http://169.254.169.254/"); !errors.Is(err, errPrivate) {
			t.Errorf("got %v", err)
		}
		if v, err := tr.Check(t.Context(), "http://169.254.169.254/"); err != nil || !strings.HasPrefix(v.Reason, "not sent: ") {
			t.Errorf("%+v, %v", v, err)
		}
		if status, err := fetch(t.Context(), client, "https://example.com/"); status != 200 {
			t.Errorf("fails open, as it was told to: %d, %v", status, err)
		}
		for _, r := range web.Requests() {
			if strings.Contains(r.URL, "169.254") {
				t.Errorf("%v", r)
			}
		}
	})
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if report, err := audit.Check(&log); err != nil || !report.OK() {
		t.Errorf("%v\n%v", err, report)
	}
}

// TestRefuseHostsHoldsForThoseWaiting: a host that is added to the file gets no further request.
func TestRefuseHostsHoldsForThoseWaiting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "refuse.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# nobody yet\n.example.org  # and below\n")
	list, err := politeness.RefuseHosts(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := politeness.Config{Refuse: list.Refuse, DangerouslyIgnoreRobots: true, Hosts: hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}}}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://www.example.org").Page("/", "page")
		_, err := b.get("https://www.example.org/")
		refused(b.T, err, politeness.StageRule, politeness.ErrDisallowed)
		b.mustGet("https://example.com/", 200)
		ended := make(chan error)
		go func() {
			_, err := b.get("https://example.com/")
			ended <- err
		}()
		time.Sleep(time.Second)
		write("example.com the owner has asked us to\n")
		err = <-ended
		refused(b.T, err, politeness.StageRule, politeness.ErrDisallowed)
		if !strings.Contains(err.Error(), "the owner has asked us to") {
			b.Error(err)
		}
		b.mustGet("https://www.example.org/", 200)
		if n := len(b.web.Requests()); n != 2 {
			b.Errorf("%d requests were sent", n)
		}
		// One record says it, and no other one that the turn was given back.
		if n, left := len(b.log.Decisions(evidence.BlockedByRule)), b.log.Decisions(evidence.Failed); n != 2 || len(left) != 0 {
			b.Errorf("%d refusals on record, and %+v", n, left)
		}
		write("https://example.com/\n")
		time.Sleep(time.Second)
		_, err = b.get("https://example.com/")
		refused(b.T, err, politeness.StageRule, politeness.ErrDisallowed)
		if err := list.Err(); err == nil || !strings.Contains(err.Error(), "line 1") {
			b.Errorf("a faulty file: %v", err)
		}
	})
	if _, err := politeness.RefuseHosts(path); err == nil || !strings.Contains(err.Error(), "is a URL") {
		t.Errorf("a faulty file: %v", err)
	}
}

// TestARuleThatChangesWhileRobotsTxtWaits: the page is refused as where the rule had been there
// before, and not for want of a turn.
func TestARuleThatChangesWhileRobotsTxtWaits(t *testing.T) {
	rule := errors.New("no robots.txt")
	var closed atomic.Bool
	cfg := politeness.Config{
		HostKey: func(*http.Request) string { return "all" },
		Hosts:   hostlimit.Config{Delay: hostlimit.Delay{Min: 10 * time.Second}},
		Refuse: func(req *http.Request) error {
			if closed.Load() && req.URL.Path == "/robots.txt" {
				return rule
			}
			return nil
		},
	}
	virtually(t, cfg, func(b *bubble) {
		b.site.Page("/", "page")
		b.web.Site("https://other.example").Page("/", "page")
		b.mustGet("https://example.com/", 200)
		time.AfterFunc(time.Second, func() { closed.Store(true) })
		_, err := b.get("https://other.example/")
		refused(b.T, err, politeness.StageRobots, politeness.ErrUnreachable)
		if !errors.Is(err, politeness.ErrDisallowed) || !errors.Is(err, rule) || len(b.log.Decisions(evidence.SlotTimeout)) != 0 {
			b.Errorf("%v\n%s", err, b.types())
		}
	})
}
