package audit_test

import (
	"fmt"
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
		for i := range 2 {
			s.add(evidence.Decision{
				Type: evidence.RobotsUnreachable, Time: at(3600 + float64(i)*300), RobotsTxt: true, URL: "https://a.example/robots.txt", Status: 503, Reason: "status 503",
			}, nil)
		}
		s.robots(text, 4200, func(d *evidence.Decision) { d.Type, d.Text, d.Status = evidence.RobotsRevalidated, "", 304 })
		s.page(1, 4300)
		return s
	}
	confirmed(text).wants(t, audit.BrokenVerdict)
	s := confirmed(text + "\n") // not the text that is known
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Proofs.Robots != 0 || r.Proofs.OpenRobots != 1 {
		t.Errorf("%+v", r.Proofs)
	}
}

func TestCopiesOfRobotsTxtHoldForADay(t *testing.T) {
	const hour = 3600
	copies := func(texts int, last float64) story {
		var s story
		s.robots("User-agent: *\nDisallow: /y\n", 0)
		if texts == 3 {
			s.robots("User-agent: *\nDisallow: /x\nDisallow: /z\n", hour)
		}
		s.robots("User-agent: *\nDisallow: /x\n", last)
		s.page(1, last+1)
		return s
	}
	copies(3, 2*hour).wants(t, "") // another Transport may have the first one
	copies(3, 100*hour).wants(t, audit.BrokenVerdict)
	copies(2, 100*hour).wants(t, "") // the last one is in use while the next is fetched

	// A site that changes its mind for ever costs no more than some copies.
	var s story
	s.robots("User-agent: *\nDisallow: /y\n", 0)
	for i := range 100 {
		s.robots(fmt.Sprintf("User-agent: *\nDisallow: /x\nDisallow: /%d\n", i%50), float64(i+1))
	}
	s.page(1, 200)
	s.wants(t, audit.BrokenVerdict)
	// Nor does one that goes to and fro lose any.
	s = nil
	s.robots("User-agent: *\nDisallow: /y\n", 0)
	for i := range 100 {
		s.robots(fmt.Sprintf("User-agent: *\nDisallow: /x\nDisallow: /%d\n", i%2), float64(i+1))
	}
	s.page(1, 200)
	s.wants(t, "")
}

func TestVerdictOfALenientGroupIsLeftOpen(t *testing.T) {
	lenient := func(group string) story {
		var s story
		s.robots("User-agent: Test*\nDisallow: /x\n", 0)
		s.add(evidence.Decision{Type: evidence.BlockedByRobots, Time: at(1), Trip: 1, MatchedRule: "Disallow: /x", Line: 2, Group: group}, nil)
		return s
	}
	s := lenient("Test*")
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Proofs.Robots != 0 || r.Proofs.OpenRobots != 1 {
		t.Errorf("%+v", r.Proofs)
	}
	for _, group := range []string{"", "*", "testbot"} {
		lenient(group).wants(t, audit.BrokenVerdict)
	}
}

func TestVerdictOnAURLThatHeldUserinfoIsLeftOpen(t *testing.T) {
	var s story
	s.robots("User-agent: *\nDisallow: /*@\n", 0)
	s.add(evidence.Decision{
		Type: evidence.BlockedByRobots, Time: at(1), Trip: 1, MatchedRule: "Disallow: /*@", Line: 2, Group: "*", URL: "https://a.example/go?u=https://me@b.example/",
	}, nil)
	s.wants(t, "")
	if r := check(t, logtest.Write(t, s)); r.Proofs.OpenRobots != 1 {
		t.Errorf("%+v", r.Proofs)
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
			t.Errorf("%s: %+v", url, r.Proofs)
		}
	}
}
