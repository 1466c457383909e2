package robots_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/robots"
)

// statedBy returns the answers for training, grounding and search in one word each.
func statedBy(p robots.Preferences) [3]string {
	return [3]string{p.Train.Preference.String(), p.Ground.Preference.String(), p.Search.Preference.String()}
}

const (
	u = "unstated"
	g = "granted"
	r = "refused"
)

// TestAIPREF holds Content-Usage against the examples and rules of draft-ietf-aipref-attach and
// draft-ietf-aipref-vocab, in robots.txt and as a header field. Nine of them a list of label=token
// pairs would read otherwise: they are marked.
func TestAIPREF(t *testing.T) {
	for _, c := range []struct {
		statement string
		want      [3]string
		otherwise bool // than a splitter at commas and equals signs
	}{
		{"train-ai=n", [3]string{r, u, u}, false},
		{"train-ai=y, search=n", [3]string{g, u, r}, false},
		{"train-ai=n;x=1", [3]string{r, u, u}, true},                             // unknown parameters are ignored
		{"train-ai;allow=n, train-ai=y", [3]string{g, u, u}, false},              // of the vocabulary's draft
		{`train-ai;has;parameters="?";`, [3]string{u, u, u}, false},              // the same, and its last semicolon fails
		{`train-ai=y, train-ai, search=n, search="n"`, [3]string{u, u, u}, true}, // the same: the last value counts
		{"train-ai=n, train-ai=y", [3]string{g, u, u}, true},
		{"train-ai=y, train-ai=n", [3]string{r, u, u}, false},
		{"Train-AI=n", [3]string{u, u, u}, true},   // keys are in lower case, or parsing fails
		{"train-ai=N", [3]string{u, u, u}, true},   // tokens are case sensitive
		{"train-ai = n", [3]string{u, u, u}, true}, // no white space around the equals sign
		{"train-ai=n,", [3]string{u, u, u}, true},  // no comma at the end
		{"train-ai=n search=n", [3]string{u, u, u}, false},
		{"train-ai=n, Search=y", [3]string{u, u, u}, true}, // one error, and nothing counts
		{"train-ai=n, other=?9", [3]string{u, u, u}, true},
		{`train-ai="n"`, [3]string{u, u, u}, false},
		{"train-ai=(n)", [3]string{u, u, u}, false},
		{"train-ai, ai-use=?0", [3]string{u, u, u}, false},
		{"train-ai=n, future=y, ai-use=y", [3]string{r, g, u}, false}, // unknown labels are ignored
		{"train-ai=n,\tsearch=y", [3]string{r, u, g}, false},
		{"", [3]string{u, u, u}, false},
		{"train-ai=n, \xc3\xbc=y", [3]string{u, u, u}, true},
	} {
		if got := statedBy(agentRules("Content-Usage: " + c.statement).Preferences("/")); got != c.want {
			t.Errorf("robots.txt, %q: got %v, want %v", c.statement, got, c.want)
		}
		if got := statedBy(robots.HeaderPreferences(map[string][]string{"Content-Usage": {c.statement}})); got != c.want {
			t.Errorf("header, %q: got %v, want %v", c.statement, got, c.want)
		}
		if split := bySplitting(c.statement); (split != c.want) != c.otherwise {
			t.Errorf("%q: a splitter says %v", c.statement, split)
		}
	}
}

// bySplitting is what this package did before it parsed dictionaries.
func bySplitting(list string) [3]string {
	said := [3]string{u, u, u}
	for item := range strings.SplitSeq(list, ",") {
		label, token, _ := strings.Cut(strings.ToLower(item), "=")
		i := slices.Index([]string{"train-ai", "ai-use", "search"}, strings.TrimSpace(label))
		token = strings.TrimSpace(token)
		switch {
		case i >= 0 && token == "n":
			said[i] = r
		case i >= 0 && token == "y" && said[i] == u:
			said[i] = g
		}
	}
	return said
}

// TestAIPREFPaths holds the table of draft-ietf-aipref-attach, section "Example", and its rules on
// paths.
func TestAIPREFPaths(t *testing.T) {
	draft := robots.Parse([]byte(`User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
Content-Usage: /ai-ok/ train-ai=y

User-Agent: ExampleBot
Allow: /
Content-Usage: train-ai=y
`))
	for _, c := range []struct {
		agent, path string
		allowed     bool
		train       string
	}{
		{"OtherBot", "/test", true, r},
		{"OtherBot", "/never/test", false, u}, // "no preferences are implied for resources that are disallowed"
		{"OtherBot", "/ai-ok/test", true, g},
		{"ExampleBot", "/test", true, g},
		{"ExampleBot", "/never/test", true, g},
	} {
		rules := draft.Agent(c.agent)
		if got := rules.Test(c.path).Allowed; got != c.allowed {
			t.Errorf("%s %s: allowed %v", c.agent, c.path, got)
		}
		if got := rules.Preferences(c.path).Train.Preference.String(); got != c.train {
			t.Errorf("%s %s: got %s, want %s", c.agent, c.path, got, c.train)
		}
	}

	lines := "Content-Usage: train-ai=n, search=y\nContent-Usage: /public/ train-ai=y\nContent-Usage: /public/*.pdf$\tai-use=n\n" +
		"Content-Usage: /public/ train-ai=x, ai-use=y, search=n\nContent-Usage: /silent\nContent-Usage:   /a%62c  search=n"
	for _, c := range []struct {
		lines, target string
		want          [3]string
		train         string // source
	}{
		{"", "/", [3]string{u, u, u}, ""},
		{lines, "/", [3]string{r, u, g}, "Content-Usage, line 2"},
		{lines, "/public/a", [3]string{g, g, r}, "Content-Usage, line 3"}, // equal paths: the strictest
		{lines, "/p%75blic/a", [3]string{g, g, r}, "Content-Usage, line 3"},
		{lines, "/public/a.pdf", [3]string{u, r, u}, ""}, // the longest path alone
		{lines, "/public/a.pdf?b", [3]string{g, g, r}, "Content-Usage, line 3"},
		{lines, "https://h/public/a#b", [3]string{g, g, r}, "Content-Usage, line 3"},
		{lines, "/silent/a", [3]string{u, u, u}, ""}, // which states nothing
		{lines, "/abc", [3]string{u, u, r}, ""},
		{"Content-Usage: /a train-ai=n", "/b", [3]string{u, u, u}, ""},
		{"Content-Usage: train-ai=y\nContent-Usage: train-ai=n", "/b", [3]string{r, u, u}, "Content-Usage, line 3"},
		{"Content-Usage: *.pdf train-ai=n", "/b.pdf", [3]string{u, u, u}, ""}, // only a slash begins a path
		{"Content-Usage: train-ai=n # why", "/b", [3]string{r, u, u}, "Content-Usage, line 2"},
	} {
		got := agentRules(c.lines).Preferences(c.target)
		if statedBy(got) != c.want || got.Train.Source != c.train {
			t.Errorf("%q %s: got %v (%q), want %v (%q)", c.lines, c.target, statedBy(got), got.Train.Source, c.want, c.train)
		}
	}
	before := robots.Parse([]byte("Content-Usage: train-ai=n\nUser-agent: *\nDisallow:\n")).Agent("FooBot")
	if got := before.Preferences("/"); got != (robots.Preferences{}) {
		t.Errorf("a Content-Usage before all groups, which is for nobody: %v", got)
	}
}

// TestContentUsageOfManyLines: of thousands of lines those count that say something, as if all were
// read anew for each page.
func TestContentUsageOfManyLines(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	paths := []string{"", "/ ", "/a ", "/ab ", "/b "}
	targets := []string{"/", "/a", "/abc", "/b/c", "/d"}
	statements := []string{"train-ai=y", "train-ai=n", "search=y", "search=n, train-ai=y", "ai-use=n", "", "other=n", "train-ai=n,"}
	for range 300 {
		text := "User-agent: *\n"
		var lines []string
		for range r.IntN(30) {
			lines = append(lines, paths[r.IntN(len(paths))]+statements[r.IntN(len(statements))])
			text += "Content-Usage: " + lines[len(lines)-1] + "\n"
		}
		rules := robots.Parse([]byte(text)).Agent("FooBot")
		for _, target := range targets {
			longest := -1
			var want robots.Preferences
			for i, l := range lines {
				path, _, found := strings.Cut(l, " ")
				if !strings.HasPrefix(path, "/") || !found {
					path = ""
				}
				if !strings.HasPrefix(target, path) || len(path) < longest {
					continue
				}
				if len(path) > longest {
					longest = len(path)
					want = robots.Preferences{}
				}
				alone := robots.Parse([]byte("User-agent: *\nContent-Usage: " + l)).Agent("FooBot").Preferences(target)
				for _, a := range []*robots.Answer{&alone.Train, &alone.Ground, &alone.Search} {
					if a.Source != "" {
						a.Source = fmt.Sprintf("Content-Usage, line %d", i+2)
					}
				}
				want = want.Merge(alone)
			}
			if got := rules.Preferences(target); got != want {
				t.Fatalf("%s: %v, want %v\n%s", target, got, want, text)
			}
		}
	}
	for name, line := range map[string]string{"no path": "a%d=n", "one path": "/ a%d=n", "many keys": strings.Repeat("a,", 900) + "a%d", "other paths": "/%d search=n"} {
		var b strings.Builder
		b.WriteString("User-agent: *\n")
		for i := 0; b.Len() < 400<<10; i++ {
			b.WriteString("Content-Usage: " + fmt.Sprintf(line, i) + "\n")
		}
		rules := robots.Parse([]byte(b.String())).Agent("FooBot")
		// A string for each line, at most; and one more parse.
		if n := testing.AllocsPerRun(1, func() { rules.Preferences("/page") }); n > 40_000 || name != "other paths" && n > 100 {
			t.Errorf("%s: %v allocations a page", name, n)
		}
	}
}

func TestContentSignal(t *testing.T) {
	for _, c := range []struct {
		lines string
		want  [3]string
		train string // source
	}{
		{"", [3]string{u, u, u}, ""},
		{"Content-Signal: search=yes, ai-train=no", [3]string{r, u, g}, "Content-Signal, line 2"},
		{"Content-Signal: search=yes; ai-train=no", [3]string{r, u, g}, "Content-Signal, line 2"},
		{"content-signal: SEARCH = Yes ,ai-input=no", [3]string{u, r, g}, ""},
		{"Content-Signal: search=yes\nContent-Signal: search=no, ai-train=maybe", [3]string{u, u, r}, ""},
		{"Content-Signal: nonsense", [3]string{u, u, u}, ""},
		{"Content-Signal: search=yes,ai-train=no,use=reference", [3]string{r, u, g}, "Content-Signal, line 2"},
		{"Content-Signal: use=reference", [3]string{r, u, u}, "Content-Signal use=reference, line 2"},
		{"Content-Signal: search=yes, use=Immediate", [3]string{r, u, r}, "Content-Signal use=immediate, line 2"},
		{"Content-Signal: use=full", [3]string{u, u, u}, ""},
		{"Content-Signal: use=other", [3]string{u, u, u}, ""},
	} {
		got := agentRules(c.lines).Preferences("/")
		if statedBy(got) != c.want || got.Train.Source != c.train {
			t.Errorf("%q: got %v (%q), want %v (%q)", c.lines, statedBy(got), got.Train.Source, c.want, c.train)
		}
	}
	// Before all groups it is for everyone, whatever the own group says less strictly.
	f := robots.Parse([]byte("Content-Signal: ai-train=no\nUser-agent: FooBot\nContent-Signal: ai-train=yes, search=yes\nUser-agent: Bar\nDisallow: /x\n"))
	if got, want := f.Agent("FooBot").Preferences("/").String(), "train refused (Content-Signal, line 1), search granted (Content-Signal, line 3)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := f.Agent("OtherBot").Preferences("/").String(); got != "train refused (Content-Signal, line 1)" {
		t.Errorf("of a crawler that no group names: %s", got)
	}
}

// TestPreferencesOfSixSources holds what six sources state together, each in three ways, for all
// three purposes, against a model: a refusal anywhere refuses, else a grant anywhere grants.
func TestPreferencesOfSixSources(t *testing.T) {
	type source struct {
		text string // where %s stands for what is said
		say  [3]string
		of   [3]string // what each of say says of training, grounding, search: "n", "y" or "-"
	}
	sources := [6]source{
		{"Content-Usage: /a %s\n", [3]string{"", "train-ai=y, ai-use=n", "train-ai=n, search=y"}, [3]string{"---", "yn-", "n-y"}},
		{"Content-Signal: %s\n", [3]string{"", "ai-train=yes, search=no", "ai-train=no, ai-input=yes"}, [3]string{"---", "y-n", "ny-"}},
		{"Content-Usage", [3]string{"", "search=y, train-ai=y", "ai-use=n;why, search=n"}, [3]string{"---", "y-y", "-nn"}},
		{"Tdm-Reservation", [3]string{"2", "0", "1"}, [3]string{"---", "yy-", "nn-"}},
		{"X-Robots-Tag", [3]string{"noindex", "noml", "noai"}, [3]string{"---", "n--", "nn-"}},
		{`<html><head><meta name="tdm-reservation" content="%s"></head>`, [3]string{"", "0", "1"}, [3]string{"---", "yy-", "nn-"}},
	}
	for n := range 3 * 3 * 3 * 3 * 3 * 3 {
		var say, of [6]string
		for i, k := 0, n; i < 6; i, k = i+1, k/3 {
			say[i] = sources[i].say[k%3]
			of[i] = sources[i].of[k%3]
		}
		text := "User-agent: *\n" + strings.Replace(sources[0].text, "%s", say[0], 1) + strings.Replace(sources[1].text, "%s", say[1], 1)
		header := map[string][]string{}
		for i := 2; i < 5; i++ {
			header[sources[i].text] = []string{say[i]}
		}
		page := robots.NewMetaScanner("FooBot")
		_, _ = page.Write([]byte(strings.Replace(sources[5].text, "%s", say[5], 1)))
		got := robots.Parse([]byte(text)).Agent("FooBot").Preferences("/a").
			Merge(robots.HeaderPreferences(header, "FooBot")).
			Merge(page.Preferences())
		for purpose := range 3 {
			want := u
			for i := range of {
				if of[i][purpose] == 'n' {
					want = r
				} else if of[i][purpose] == 'y' && want == u {
					want = g
				}
			}
			a := got.For(robots.Purpose(purpose))
			if a.Preference.String() != want || (a.Source == "") != (want == u) {
				t.Fatalf("%q: %v: got %v, want %s", say, robots.Purpose(purpose), a, want)
			}
			if _, refused := got.Refused([]robots.Purpose{robots.Purpose(purpose)}); refused != (want == r) {
				t.Fatalf("%q: Refused(%v): %v", say, robots.Purpose(purpose), refused)
			}
		}
	}
}

func TestHeaderPreferences(t *testing.T) {
	for _, c := range []struct {
		header map[string][]string
		want   string
	}{
		{nil, ""},
		{map[string][]string{"Content-Usage": {"train-ai=y", "train-ai=n"}}, "train refused (Content-Usage header)"}, // one dictionary
		{map[string][]string{"Content-Usage": {"train-ai=n", "train-ai=y"}}, "train granted (Content-Usage header)"},
		{map[string][]string{"Content-Signal": {"ai-train=yes, search=yes, ai-input=yes"}}, "train granted (Content-Signal header), ground granted (Content-Signal header), search granted (Content-Signal header)"},
		{map[string][]string{"Tdm-Reservation": {" 1 "}, "Tdm-Policy": {"https://a/policy.json"}}, "train refused (tdm-reservation header), ground refused (tdm-reservation header), license https://a/policy.json"},
		{map[string][]string{"Tdm-Reservation": {"true"}}, ""},
		{map[string][]string{"Tdm-Reservation": {"0, 1"}}, "train refused (tdm-reservation header), ground refused (tdm-reservation header)"},
		{map[string][]string{"Tdm-Reservation": {"0", "1"}}, "train refused (tdm-reservation header), ground refused (tdm-reservation header)"},
		{map[string][]string{"X-Robots-Tag": {"otherbot: noai", "noml"}}, "train refused (X-Robots-Tag noml)"},
		{map[string][]string{"X-Robots-Tag": {"foobot: noai"}}, "train refused (X-Robots-Tag noai), ground refused (X-Robots-Tag noai)"},
		{map[string][]string{"X-Robots-Tag": {"noimageai"}, "Content-Type": {"text/html"}}, ""},
		{map[string][]string{"X-Robots-Tag": {"noimageai"}, "Content-Type": {"Image/PNG"}}, "train refused (X-Robots-Tag noimageai), ground refused (X-Robots-Tag noimageai)"},
		{map[string][]string{"Link": {`</s.css>; rel=preload, <https://a/l.xml>; rel="license"; type="application/rsl+xml"`}}, "license https://a/l.xml"},
		{map[string][]string{"Tdm-Policy": {"https://a/" + strings.Repeat("x", 1014)}}, "license https://a/" + strings.Repeat("x", 1014)},
		{map[string][]string{"Tdm-Policy": {"https://a/" + strings.Repeat("x", 1015)}}, ""},
		{map[string][]string{"Link": {`</s.css>; rel=preload`, `<`, `<>`, `<https://a/cc>; rel=license`}}, ""},
		{map[string][]string{"Link": {`<https://a/old>; rel="license-history"; type="application/rsl+xml"`}}, ""},
		{map[string][]string{"Link": {`</a>; title="<x>; rel=license; type=application/rsl+xml"; rel=next`}}, ""},
		{map[string][]string{"Link": {`<https://a/l>; rel="terms license"; type="application/rsl+xml"; anchor="/other"`}}, ""},
		{map[string][]string{"Link": {"<https://a/l>;rel=\"up\tLICENSE\" ; TYPE=application/rsl+xml"}}, "license https://a/l"},
	} {
		if got := robots.HeaderPreferences(c.header, "FooBot").String(); got != c.want {
			t.Errorf("%v: got %q, want %q", c.header, got, c.want)
		}
	}
}

func TestMetaPreferences(t *testing.T) {
	for page, want := range map[string]string{
		"<head></head>": "",
		`<meta name="tdm-reservation" content="1"><META NAME="TDM-Policy" CONTENT=" https://a/p ">`: "train refused (meta tdm-reservation), ground refused (meta tdm-reservation), license https://a/p",
		`<meta name="robots" content="noai, noimageai">`:                                            "train refused (meta noai), ground refused (meta noai)",
		`<meta name="otherbot" content="noai"><meta name="foobot" content="noml">`:                  "train refused (meta noml)",
		`<head></head><meta name="tdm-reservation" content="1">`:                                    "",
	} {
		s := robots.NewMetaScanner("FooBot")
		for i := range page {
			_, _ = s.Write([]byte{page[i]})
		}
		if got := s.Preferences().String(); got != want {
			t.Errorf("%s: got %q, want %q", page, got, want)
		}
	}
}

// TestPreferencesAllocateNothing: a site that says nothing of single paths costs nothing to ask.
// TestNoPreferencesForWhatIsDisallowed: draft-ietf-aipref-attach-05, section 3.1, for all that
// robots.txt states.
func TestNoPreferencesForWhatIsDisallowed(t *testing.T) {
	rules := agentRules("Disallow: /no\nContent-Signal: ai-train=yes\nContent-Usage: search=y\nLicense: https://a/l")
	if got := rules.Preferences("/no/page"); got != (robots.Preferences{}) {
		t.Errorf("disallowed: %v", got)
	}
	if got := rules.Preferences("/page"); got.Train.Preference != robots.Granted || got.Search.Preference != robots.Granted || got.License == "" {
		t.Errorf("allowed: %v", got)
	}
}

func TestPreferencesAllocateNothing(t *testing.T) {
	for _, lines := range []string{"Disallow: /b", "Content-Signal: search=yes, ai-train=no\nLicense: https://a/l"} {
		rules := agentRules(lines)
		if n := testing.AllocsPerRun(100, func() { rules.Preferences("/a?b=c") }); n != 0 {
			t.Errorf("%q: %v allocations", lines, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { robots.HeaderPreferences(map[string][]string{}) }); n != 0 {
		t.Errorf("a header that states nothing: %v allocations", n)
	}
}

func TestPurposes(t *testing.T) {
	for p, want := range map[robots.Purpose]string{robots.Train: "train", robots.Ground: "ground", robots.Search: "search", 3: "Purpose(3)"} {
		if p.String() != want || p.Valid() != (p < 3) {
			t.Errorf("got %s, %v; want %s", p, p.Valid(), want)
		}
	}
	if got := (robots.Preferences{}).For(7); got != (robots.Answer{}) {
		t.Errorf("of no purpose: %v", got)
	}
}

// TestLinesOfAnyField: each field of a file can be shown, in any of its spellings.
func TestLinesOfAnyField(t *testing.T) {
	f := robots.Parse([]byte("\xef\xbb\xbfUser-agent: *\nCrawl-delay: 5\ncrawldelay: 7 # slowly\nRequest-rate: 1/5\nVisit-time: 0600-0845\nHost: a.example\n" +
		"License: https://a/l\nContent-Signal: search=no\nDissallow: /x\nNoindex: /y\nSite-map: https://a/s\nCrawl-delayed: 1\n"))
	for key, want := range map[string][]robots.Line{
		"Crawl-delay":    {{2, "Crawl-delay", "5"}, {3, "crawldelay", "7"}},
		"request-rate":   {{4, "Request-rate", "1/5"}},
		"Visit-time":     {{5, "Visit-time", "0600-0845"}},
		"Host":           {{6, "Host", "a.example"}},
		"License":        {{7, "License", "https://a/l"}},
		"Content-Signal": {{8, "Content-Signal", "search=no"}},
		"Disallow":       {{9, "Dissallow", "/x"}},
		"NOINDEX":        {{10, "Noindex", "/y"}},
		"Sitemap":        {{11, "Site-map", "https://a/s"}},
		"User-agent":     {{1, "User-agent", "*"}},
		"Content-Usage":  nil,
		"":               nil,
	} {
		if got := f.Lines(key); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", key, got, want)
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
	long := "https://a/" + strings.Repeat("x", 2000)
	two := robots.Parse([]byte("User-agent: *\nLicense: https://a/1\nLicense: https://a/2")).Agent("FooBot")
	if got := two.License(); len(got) != 2 || two.Preferences("/").License != got[0] {
		t.Errorf("of two licenses: %q, %v", got, two.Preferences("/"))
	}
	if got := robots.Parse([]byte("License: " + long)).Agent("FooBot").License(); !slices.Equal(got, []string{long}) {
		t.Errorf("of a long address: %q", got)
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

// A path of a Content-Usage line may have any number of stars.
func TestUsageOfManyStars(t *testing.T) {
	r := robots.Parse([]byte("User-agent: *\nContent-Usage: /" + strings.Repeat("*ab", 400) + "*c$ train-ai=n\n")).Agent("FooBot")
	path := "/" + strings.Repeat("ab", 500) + "c"
	if got := r.Preferences(path).Train.Preference; got != robots.Refused {
		t.Errorf("%v", got)
	}
	if got := r.Preferences(path + "d").Train.Preference; got != robots.Unstated {
		t.Errorf("%v beside the path", got)
	}
}
