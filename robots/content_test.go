package robots_test

import (
	"slices"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

func TestContentSignal(t *testing.T) {
	const yes, no = robots.Permitted, robots.Refused
	for _, c := range []struct {
		lines string
		want  robots.Signal
	}{
		{"", robots.Signal{}},
		{"Content-Signal: search=yes, ai-train=no", robots.Signal{Search: yes, AITrain: no, Line: 2}},
		{"content-signal: SEARCH = Yes ,ai-input=no", robots.Signal{Search: yes, AIInput: no, Line: 2}},
		{"Content-Signal: search=yes\nContent-Signal: search=no, ai-train=maybe", robots.Signal{Search: no, Line: 2}},
		{"Content-Signal: nonsense", robots.Signal{Line: 2}},
	} {
		if got := agentRules(c.lines).ContentSignal(); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.lines, got, c.want)
		}
	}
}

func TestContentUsage(t *testing.T) {
	const y, n = robots.Permitted, robots.Refused
	lines := "Content-Usage: train-ai=n, search=y\nContent-Usage: /public/ train-ai=y\nContent-Usage: /public/*.pdf$\tai-use=n\nContent-Usage: /public/ train-ai=x, ai-use=y, search=N"
	for _, c := range []struct {
		lines, target string
		want          robots.Usage
	}{
		{"", "/", robots.Usage{}},
		{lines, "/", robots.Usage{TrainAI: n, Search: y, Line: 2}},
		{lines, "/public/a", robots.Usage{TrainAI: y, AIUse: y, Search: n, Line: 3}},
		{lines, "/p%75blic/a", robots.Usage{TrainAI: y, AIUse: y, Search: n, Line: 3}},
		{lines, "/public/a.pdf", robots.Usage{AIUse: n, Line: 4}},
		{"Content-Usage: /a train-ai=n", "/b", robots.Usage{}},
		{"Content-Usage: train-ai=y\nContent-Usage: train-ai=n", "/b", robots.Usage{TrainAI: n, Line: 2}},
	} {
		if got := agentRules(c.lines).ContentUsage(c.target); got != c.want {
			t.Errorf("%q %s: got %+v, want %+v", c.lines, c.target, got, c.want)
		}
	}
}

func TestPreferenceString(t *testing.T) {
	for p, want := range map[robots.Preference]string{robots.Unstated: "unstated", robots.Permitted: "permitted", robots.Refused: "refused"} {
		if p.String() != want {
			t.Errorf("got %s, want %s", p, want)
		}
	}
}

func TestFileLines(t *testing.T) {
	f := robots.Parse([]byte("License: https://a/all\nSitemap: https://a/1.xml\nUser-agent: FooBot\nDisallow: /\nLicense: https://a/foo\nsite-map: https://a/2.xml\nUser-agent: *\nNoindex: /b\nDisallow: /\nHost: a.example # main\nHost: b.example\nClean-param: ref /x\n"))
	if got, want := f.Sitemaps(), []string{"https://a/1.xml", "https://a/2.xml"}; !slices.Equal(got, want) {
		t.Errorf("Sitemaps: got %q, want %q", got, want)
	}
	if got, want := f.SitemapLines(), []robots.Line{{2, "Sitemap", "https://a/1.xml"}, {6, "site-map", "https://a/2.xml"}}; !slices.Equal(got, want) {
		t.Errorf("SitemapLines: got %v, want %v", got, want)
	}
	if got, want := f.UnknownLines(), []robots.Line{{8, "Noindex", "/b"}, {12, "Clean-param", "ref /x"}}; !slices.Equal(got, want) {
		t.Errorf("UnknownLines: got %v, want %v", got, want)
	}
	if got := f.Host(); got != "a.example" {
		t.Errorf("Host: got %q", got)
	}
	for agent, want := range map[string]string{"FooBot": "https://a/foo", "Bar": "https://a/all"} {
		if got := f.Agent(agent).License(); len(got) != 1 || got[0] != want {
			t.Errorf("License of %s: got %q, want %q", agent, got, want)
		}
	}
	if got := f.License(); len(got) != 1 || got[0] != "https://a/all" {
		t.Errorf("License of the file: got %q", got)
	}
	none := robots.Parse(nil)
	if none.Sitemaps() != nil || none.Host() != "" || none.UnknownLines() != nil || none.License() != nil || none.Lint() != nil {
		t.Error("something out of nothing")
	}
	if v := none.Agent("FooBot").Test("/"); v != (robots.Verdict{Allowed: true}) {
		t.Errorf("an empty file: %+v", v)
	}
	if v := new(robots.Rules).Test("/"); v != (robots.Verdict{Allowed: true}) {
		t.Errorf("zero Rules: %+v", v)
	}
}
