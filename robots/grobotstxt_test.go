package robots

import (
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/jimsmart/grobotstxt"
)

// A fault is a known way in which grobotstxt v1.0.3 differs from the matcher that it
// translates. Where ours differs from it, one of them must show.
type fault struct {
	name string
	// shows reports whether the fault can change the answer for agent and url. It is asked of
	// each line by itself, and of the empty one.
	shows func(l rawLine, agent, url string) bool
	// an example of the fault, and what Google's matcher answers to it
	body, agent, target string
	allowed             bool
	line                int
}

var faults = []fault{
	{
		name: "url.Parse on the URL first",
		shows: func(_ rawLine, _, u string) bool {
			parsed, err := url.Parse(u)
			return err != nil || parsed.String() != u
		},
		body: "User-agent: *\nDisallow: /a\n", agent: "FooBot", target: "/%zz", allowed: true,
	},
	{
		name: "0x85 and 0xA0 after a star count as space",
		shows: func(l rawLine, _, _ string) bool {
			return l.kind == kindUserAgent && len(l.value) > 1 && l.value[0] == '*' && (l.value[1] == 0x85 || l.value[1] == 0xa0)
		},
		body: "User-agent: *\xa0x\nDisallow: /\n", agent: "FooBot", target: "/", allowed: true,
	},
	{
		name: "Unicode's white space is trimmed, and VT and FF beside a missing colon",
		shows: func(l rawLine, _, _ string) bool {
			isOddSpace := func(r rune) bool { return unicode.IsSpace(r) && (r >= 0x80 || r == '\v' || r == '\f') }
			return strings.ContainsFunc(l.raw, isOddSpace)
		},
		body: "User-agent: *\nDisallow: /\u00a0\n", agent: "FooBot", target: "/", allowed: true,
	},
	{
		name: "more characters in the agent's token",
		shows: func(l rawLine, agent, _ string) bool {
			return l.kind == kindUserAgent && !isGlobal(l.value) &&
				equalFold(leading(l.value, isNameChar), agent) != equalFold(leading(l.value, isFaultyChar), agent)
		},
		body: "User-agent: FooBot2\nDisallow: /\n", agent: "FooBot", target: "/", allowed: false, line: 2,
	},
	{
		name: "digits in escapes are corrupted",
		shows: func(l rawLine, _, _ string) bool {
			if l.kind != kindAllow && l.kind != kindDisallow {
				return false
			}
			digit := false
			for i := range len(l.value) {
				digit = digit || isEscape(l.value[i:]) && (isDigit(l.value[i+1]) || isDigit(l.value[i+2]))
			}
			return digit && string(appendUpper(nil, l.value)) != l.value
		},
		body: "User-agent: *\nDisallow: /%3f\n", agent: "FooBot", target: "/%3F", allowed: false, line: 2,
	},
	{
		name:  "a NUL doesn't cut",
		shows: func(l rawLine, _, _ string) bool { return strings.Contains(l.raw, "\x00") },
		body:  "User-agent: *\nDisallow: /a\x00b\n", agent: "FooBot", target: "/a", allowed: false, line: 2,
	},
	{
		name: "agents compare by strings.EqualFold",
		shows: func(l rawLine, agent, _ string) bool {
			token := leading(l.value, isFaultyChar)
			return l.kind == kindUserAgent && strings.EqualFold(token, agent) != equalFold(token, agent)
		},
		body: "User-agent: s\nDisallow: /\n", agent: "ſ", target: "/", allowed: true,
	},
	{
		name: "keys compare by strings.ToLower",
		shows: func(l rawLine, _, _ string) bool {
			return l.key != "" && kindOf(l.key) != kindOf(strings.ToLower(l.key))
		},
		body: "User-agent: *\nDİSALLOW: /\n", agent: "FooBot", target: "/", allowed: true,
	},
	{
		name: "the typo diaslow",
		shows: func(l rawLine, _, _ string) bool {
			return strings.HasPrefix(strings.ToLower(l.key), "diaslow") // in whichever way it compares keys
		},
		body: "User-agent: *\nDiaslow: /\n", agent: "FooBot", target: "/", allowed: true,
	},
}

// isFaultyChar reports whether grobotstxt takes c for a part of an agent's token.
func isFaultyChar(c byte) bool { return isTokenChar(c) && c != '!' && c != '&' || c == '#' }

// A rawLine is a line with its bytes as they are read.
type rawLine struct {
	*line
	raw string
}

// showing returns the names of the faults that can change the answer.
func showing(body, agent, u string) []string {
	var names []string
	for _, f := range faults {
		x := lex(body, bom(body), 0)
		var l line
		for x.next(&l) {
			raw := strings.TrimRight(body[l.start:l.next], "\r\n")
			if f.shows(rawLine{&l, raw[:min(len(raw), maxLine)]}, agent, u) {
				names = append(names, f.name)
				break
			}
		}
	}
	return names
}

const host = "http://h"

func googleVerdict(body, agent, target string) (bool, int) {
	m := grobotstxt.NewRobotsMatcher()
	allowed := m.AgentAllowed(body, agent, host+target)
	return allowed, m.MatchingLine()
}

// TestFaultsOfGrobotstxt shows each of the nine faults, and that each is recognised, by its own
// name only.
func TestFaultsOfGrobotstxt(t *testing.T) {
	for _, f := range faults {
		v := ParseWith([]byte(f.body), Options{GoogleExact: true}).Agent(f.agent).Test(f.target)
		if v.Allowed != f.allowed || v.Line != f.line {
			t.Errorf("%s: got %v line %d, want %v line %d", f.name, v.Allowed, v.Line, f.allowed, f.line)
		}
		if allowed, line := googleVerdict(f.body, f.agent, f.target); allowed == f.allowed && line == f.line {
			t.Errorf("%s: doesn't show in its example", f.name)
		}
		if names := showing(f.body, f.agent, host+f.target); len(names) != 1 || names[0] != f.name {
			t.Errorf("%s: recognised as %q", f.name, names)
		}
	}
	if names := showing("User-agent: FooBot\nDisallow: /a%2F\nAllow: /%C3%A9$ # no fault\n", "FooBot", host+"/a%2Fb?c=d"); names != nil {
		t.Errorf("nothing: recognised as %q", names)
	}
}

// FuzzGoogleExact holds that under GoogleExact verdict and line are those of Google's matcher,
// as grobotstxt has translated it, faults aside.
func FuzzGoogleExact(f *testing.F) {
	for _, c := range matchCases {
		f.Add([]byte(c.body), "FooBot", c.target)
	}
	for _, x := range faults {
		f.Add([]byte(x.body), x.agent, x.target)
	}
	f.Fuzz(func(t *testing.T, body []byte, agent, target string) {
		if !strings.HasPrefix(target, "/") || len(target) > 4<<10 {
			return
		}
		allowed, line := googleVerdict(string(body), agent, target)
		v := ParseWith(body, Options{GoogleExact: true}).Agent(agent).Test(target)
		if v.Allowed == allowed && v.Line == line {
			return
		}
		if showing(string(body), agent, host+target) == nil {
			t.Errorf("%q\n%q %q: got %v line %d, want %v line %d", body, agent, target, v.Allowed, v.Line, allowed, line)
		}
	})
}
