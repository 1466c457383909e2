package robots

import (
	"strings"
	"time"
)

// Rules are a file's rules for one crawler, compiled. They are immutable and
// safe for concurrent use.
type Rules struct {
	group string
	exact bool
	list  []rule
}

type rule struct {
	text  string
	line  int
	rank  int
	parts []string // literals between stars
	end   bool     // anchored by $
}

type builder struct {
	file  *File
	exact bool
	list  []rule
}

func (b *builder) add(g group, named func(agentLine) bool) {
	in := false
	for _, a := range b.file.agents {
		if named(a) {
			in = true
		}
	}
	if !in {
		return
	}
	x := lex(b.file.text[:g.end], g.start, g.line)
	var l line
	for x.next(&l) {
		switch l.kind {
		case kindAllow:
			b.rule(l, l.value, true)
			esc := string(appendEscaped(nil, l.value))
			if i := strings.LastIndexByte(esc, '/'); i >= 0 && strings.HasPrefix(esc[i:], "/index.htm") {
				b.rule(l, esc[:i+1]+"$", true)
			}
		case kindDisallow:
			b.rule(l, l.value, false)
		}
	}
}

func (b *builder) rule(l line, value string, allow bool) {
	r := rule{text: strings.Clone(l.text), line: l.num}
	pat := string(appendEscaped(nil, value))
	end := strings.HasSuffix(pat, "$")
	r.end = end
	n := len(pat)
	if end {
		pat = pat[:len(pat)-1]
	}
	r.parts = strings.Split(pat, "*")
	if !b.exact {
		n = 0
		for i, p := range r.parts {
			p = string(appendNormal(nil, p))
			r.parts[i] = p
			n += len(p) + 1
		}
		n--
		if end {
			n++
		}
	}
	r.rank = n << 1
	if allow {
		r.rank |= 1
	}
	b.list = append(b.list, r)
}

func (b *builder) rules(name string) *Rules {
	return &Rules{group: name, exact: b.exact, list: b.list}
}

func (r *rule) matches(p string) bool {
	parts := r.parts
	if !strings.HasPrefix(p, parts[0]) {
		return false
	}
	p = p[len(parts[0]):]
	parts = parts[1:]
	if len(parts) == 0 {
		return !r.end || p == ""
	}
	last := parts[len(parts)-1]
	for _, s := range parts[:len(parts)-1] {
		i := strings.Index(p, s)
		if i < 0 {
			return false
		}
		p = p[i+len(s):]
	}
	if r.end {
		return strings.HasSuffix(p, last)
	}
	return strings.Contains(p, last)
}

// Test answers whether target may be fetched.
func (r *Rules) Test(target string) Verdict {
	if !strings.HasPrefix(target, "/") {
		target = Target(target)
	}
	target, _, _ = strings.Cut(target, "#")
	target, _, _ = strings.Cut(target, "\x00")
	v := Verdict{Allowed: true, Group: r.group}
	if !r.exact {
		target = string(appendNormal(nil, target))
		if target == "/robots.txt" {
			return v
		}
	}
	best := -1
	for i := range r.list {
		if c := &r.list[i]; c.rank > best && c.matches(target) {
			best = c.rank
			v.Allowed = best&1 != 0 || best < 2
			v.Matched = best > 1
			v.Rule, v.Line = c.text, c.line
		}
	}
	return v
}

func (r *Rules) CrawlDelay() (time.Duration, bool) { return 0, false }

// Floor reports the gap between two starts that the file asks for at time t: the longer of
// crawl-delay and request-rate in force; 0 for none.
func (r *Rules) Floor(t time.Time) time.Duration { return 0 }
