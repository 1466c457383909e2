package accesslog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/evidence/audit/accesslog"
)

// A twoNames crawl asks example.com first, whose start page redirects to www.example.com. Both are
// names of one server.
func twoNames(t *testing.T) string {
	t.Helper()
	log := `
		0  start 1 url=https://example.com/robots.txt agent=TestBot
		0.2 end 1 status=301
		1  start 2 url=https://www.example.com/robots.txt agent=TestBot
		1.2 end 2
		10 start 3 url=https://example.com/ agent=TestBot
		10.2 end 3 status=301
		11 start 4 url=https://www.example.com/ agent=TestBot
		11.2 end 4
	`
	for i := 5; i < 15; i++ {
		log += fmt.Sprintf("%d start %d url=https://www.example.com/%d agent=TestBot\n%d.2 end %d\n", 10*i, i, i, 10*i, i)
	}
	return write(t, log)
}

// accessOfTwoNames is the server's log. named returns what stands before a line, from the name that
// was asked for.
func accessOfTwoNames(named func(asked string) string) (access []string) {
	add := func(at int, host, target, status string) {
		line := strings.Replace(accessLineOf(at, target), " 200 ", " "+status+" ", 1)
		access = append(access, named(host)+line)
	}
	add(0, "example.com", "/robots.txt", "301")
	add(1, "www.example.com", "/robots.txt", "200")
	add(10, "example.com", "/", "301")
	add(11, "www.example.com", "/", "200")
	for i := 5; i < 15; i++ {
		add(10*i, "www.example.com", fmt.Sprintf("/%d", i), "200")
	}
	return access
}

// TestAServerWithSeveralNames: a server may note its own name, the name that was asked for, a name
// that nobody asks for, or none. No honest crawl is accused by any of these logs, and no hidden
// request stays hidden, however the caller names the server.
func TestAServerWithSeveralNames(t *testing.T) {
	log := twoNames(t)
	both := accesslog.Options{Host: "example.com", Aliases: []string{"www.example.com"}}
	first := accesslog.Options{Host: "example.com"}
	second := accesslog.Options{Host: "www.example.com"}
	for _, s := range []struct {
		name   string
		named  func(asked string) string
		called []accesslog.Options
	}{
		{"combined", func(string) string { return "" }, []accesslog.Options{both, first, second}},
		{"the name of the server", func(string) string { return "example.com:443 " }, []accesslog.Options{{}, both, first, second}},
		{"its other name", func(string) string { return "www.example.com:443 " }, []accesslog.Options{{}, both, first, second}},
		{"the name that was asked for", func(asked string) string { return asked + " " }, []accesslog.Options{{}, both}},
		{"a port behind a proxy", func(asked string) string { return asked + ":8080 " }, []accesslog.Options{{}, both}},
		{"a name behind a proxy", func(string) string { return "backend.internal:8080 " }, []accesslog.Options{
			{}, both, first, second, {Host: "backend.internal", Aliases: []string{"example.com", "www.example.com"}},
		}},
		{"a word that is no name", func(string) string { return "_ " }, []accesslog.Options{both, first, second}},
		{"a collector on a machine of that name", func(string) string { return "Nov 21 03:00:00 www.example.com nginx: " }, []accesslog.Options{{}, both, first, second}},
	} {
		access := accessOfTwoNames(s.named)
		hidden := append(access, s.named("www.example.com")+accessLineOf(75, "/hidden"))
		for _, o := range s.called {
			c := compare(t, log, access, o)
			if !c.OK() || c.Matched != 14 || c.Unreadable+c.Unseen.N+c.Elsewhere != 0 {
				t.Errorf("%s, called %q %q: %v", s.name, o.Host, o.Aliases, c)
			}
			if c := compare(t, log, hidden, o); c.OK() || c.Missing.N != 1 || c.Missing.First[0].Target != "/hidden" {
				t.Errorf("%s, called %q %q, with a hidden request: %v", s.name, o.Host, o.Aliases, c)
			}
		}
	}
}

// TestNamesThatDifferAreTold: a reader sees which requests have another name in the access log. Names
// that the caller gives to one server are no difference.
func TestNamesThatDifferAreTold(t *testing.T) {
	log := twoNames(t)
	access := accessOfTwoNames(func(string) string { return "example.com " })
	c := compare(t, log, access, accesslog.Options{})
	const told = "12 requests under example.com in the access log and under www.example.com in the evidence, and the same in all else.\n"
	if len(c.Aliases) != 1 || c.Aliases[0].N != 12 || !strings.Contains(c.String(), told) {
		t.Errorf("%v\n%v", c.Aliases, c)
	}
	c = compare(t, log, access, accesslog.Options{Host: "example.com", Aliases: []string{"www.example.com"}})
	if c.Aliases != nil {
		t.Errorf("names of one server: %v", c.Aliases)
	}
}

// TestAnotherNameExcusesOnlyTheSameRequest: a line with another name is excused by a request of the
// evidence with the same path, time and status. Each request excuses one line.
func TestAnotherNameExcusesOnlyTheSameRequest(t *testing.T) {
	log, access := visitsOf(t)
	line := func(at int, target, status string) string {
		return "b.example " + strings.Replace(accessLineOf(at, target), " 200 ", " "+status+" ", 1)
	}
	for name, c := range map[string]struct {
		line   string
		unseen int // of the lines of a.example, the one in whose place it stands
	}{
		"another path":          {line(3630, "/other", "200"), 1},
		"another status":        {line(3630, "/3", "404"), 1},
		"another time":          {line(3645, "/3", "200"), 1},
		"one more request":      {line(3630, "/3", "200"), 0},
		"one more, other query": {line(3630, "/3?q", "200"), 1},
	} {
		lines := append([]string{c.line}, access...)
		if c.unseen > 0 {
			lines = append(append([]string{c.line}, access[:3]...), access[4:]...)
		}
		if got := compare(t, log, lines, accesslog.Options{}); got.OK() || got.Missing.N != 1 || got.Unseen.N != c.unseen {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestADifferenceInStatusIsFoundUnderAnyName: the names of one server excuse no other answer.
func TestADifferenceInStatusIsFoundUnderAnyName(t *testing.T) {
	log := twoNames(t)
	access := accessOfTwoNames(func(string) string { return "" })
	access[6] = strings.Replace(access[6], " 200 ", " 429 ", 1)
	c := compare(t, log, access, accesslog.Options{Host: "www.example.com", Aliases: []string{"example.com"}})
	if c.OK() || c.Status.N != 1 || c.Status.First[0].SiteStatus != 429 || c.Missing.N != 0 {
		t.Error(c)
	}
}
