package audit_test

import (
	"testing"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/internal/logtest"
)

func TestRobotsTxtThatIsConfirmedHoldsAgain(t *testing.T) {
	const text = "User-agent: *\nDisallow: /x\n"
	confirmed := func(text string) story {
		var s story
		s.robots("User-agent: *\nDisallow: /x\n", 0)
		s.robots("", 3600, func(d *evidence.Decision) {
			d.Type, d.Allowed, d.SHA256, d.Status, d.Reason = evidence.RobotsUnreachable, false, "", 503, "status 503"
		})
		s.robots(text, 4200, func(d *evidence.Decision) { d.Type, d.Text, d.Status = evidence.RobotsRevalidated, "", 304 })
		s.page(1, 4300)
		return s
	}
	confirmed(text).wants(t, audit.BrokenVerdict)
	s := confirmed(text + "\n") // not the text that is known
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Promise("verdicts right").Proved != 0 || r.Promise("verdicts right").Open != 1 {
		t.Errorf("%+v", r.Promises)
	}
}

func TestVerdictOfALenientGroupNeedsALenientPolicy(t *testing.T) {
	blocked := func(group string, lenient bool) story {
		var s story
		s.robots("User-agent: Test*\nDisallow: /x\n", 0)
		s[0].Policy.Lenient, s[0].Policy.Patterns = lenient, lenient
		s.add(evidence.Decision{Type: evidence.BlockedByRobots, Time: at(1), Trip: 1, MatchedRule: "Disallow: /x", Line: 2, Group: group}, nil)
		return s
	}
	s := blocked("Test*", true)
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Promise("verdicts right").Proved != 1 {
		t.Errorf("%+v", r.Promises)
	}
	for _, group := range []string{"", "*", "testbot", "Test*"} {
		blocked(group, false).wants(t, audit.BrokenVerdict)
	}
}

func TestVerdictOnAURLThatHeldUserinfoIsLeftOpen(t *testing.T) {
	var s story
	s.robots("User-agent: *\nDisallow: /*@\n", 0)
	s.add(evidence.Decision{
		Type: evidence.BlockedByRobots, Time: at(1), Trip: 1, MatchedRule: "Disallow: /*@", Line: 2, Group: "*", URL: "https://a.example/go?u=https://me@b.example/",
	}, nil)
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Promise("verdicts right").Open != 1 {
		t.Errorf("%+v", r.Promises)
	}
}

func TestHostsAreKnownInEachSpelling(t *testing.T) {
	for _, url := range []string{
		"https://müller.example/x", "https://MÜLLER.example.:443/x", "https://xn--mller-kva.example:0443/x", "https://xn--mller-kva.example./x",
	} {
		var s story
		s.robots("User-agent: *\nDisallow: /x\n", 0, func(d *evidence.Decision) { d.URL = "https://xn--mller-kva.example/robots.txt" })
		s.allowed(1, 1, func(d *evidence.Decision) { d.URL = url })
		if r := check(t, logtest.Write(t, s)); r.Broken[audit.BrokenVerdict] != 1 {
			t.Errorf("%s: %+v", url, r.Promises)
		}
	}
}
