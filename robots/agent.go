package robots

import "strings"

// Agent compiles the rules that hold for one crawler, known by its product tokens in order
// of preference: the first one that the file names decides, all its groups merged. Where
// the file names none of them the groups of "*" hold. A whole User-Agent header serves as well:
// its ProductToken is taken.
//
// Tokens compare without regard to ASCII case. A token of letters, "_" and "-" (RFC 9309)
// is compared to what is leading in the file of such characters, so "User-agent: FooBot/2.1" names
// FooBot; any other token ("MJ12bot") to what is leading of RFC 9110's.
//
// Under GoogleExact tokens are taken as they are, as Google's matcher takes them, and
// the groups of all of them are merged.
//
// Agent never returns nil. It reads the text again, so keep its result.
func (f *File) Agent(product ...string) *Rules {
	chosen, name := f.choose(product)
	r := &Rules{group: strings.Clone(name), exact: f.opt.GoogleExact}
	c := collector{file: f, named: chosen}
	if chosen != nil {
		for from := 0; from < len(f.agents); {
			g := f.agents[from].group
			to, named := from+1, chosen(&f.agents[from])
			for ; to < len(f.agents) && f.agents[to].group == g; to++ {
				named = named || chosen(&f.agents[to])
			}
			if named {
				c.group(f.groups[g])
			}
			from = to
		}
	}
	if len(c.extras.licenses) == 0 {
		c.extras.licenses = f.License()
	}
	r.compiled = compile(c.patterns)
	r.extras = c.extras.keep()
	return r
}

// A collector gathers what a crawler's groups say.
type collector struct {
	file     *File
	named    func(*agentLine) bool
	patterns []pattern
	extras   extras
}

// group takes in one group of the crawler's.
func (c *collector) group(g group) {
	exact := c.file.opt.GoogleExact
	x := lex(c.file.text[:g.end], g.start, g.line)
	// An agent that joins a list late shares the rules of all of it, but what stands before, say
	// the Crawl-delay of a group without rules, was said to the others.
	joined := false
	var l line
	for x.next(&l) {
		switch l.kind {
		case kindAllow, kindDisallow:
			c.patterns = append(c.patterns, parsePattern(&l, exact))
			if l.kind == kindAllow {
				if p, ok := indexAlternative(&l, exact); ok {
					c.patterns = append(c.patterns, p)
				}
			}
		case kindUserAgent:
			joined = joined || c.named(&agentLine{value: l.value})
		case kindOther:
			if joined {
				c.extras.add(&l, exact)
			}
		}
	}
}

// choose returns which User-agent lines name the crawler, nil if none does, and the name.
func (f *File) choose(product []string) (func(*agentLine) bool, string) {
	var tests []func(*agentLine) (string, bool)
	if f.opt.GoogleExact {
		tests = append(tests, func(a *agentLine) (string, bool) {
			token := leading(a.value, isNameChar)
			for _, p := range product {
				if equalFold(token, p) {
					return token, true
				}
			}
			return "", false
		})
	} else {
		for _, p := range product {
			if p = ProductToken(p); p == "" || p == "*" {
				continue
			}
			in := isNameChar
			if leading(p, isNameChar) != p {
				in = isTokenChar
			}
			tests = append(tests, func(a *agentLine) (string, bool) {
				token := leading(a.value, in)
				return token, equalFold(token, p)
			})
		}
	}
	tests = append(tests, func(a *agentLine) (string, bool) { return "*", isGlobal(a.value) })
	for i, test := range tests {
		for j := range f.agents {
			a := &f.agents[j]
			if i < len(tests)-1 && isGlobal(a.value) {
				continue // a star is no crawler's name
			}
			if name, ok := test(a); ok {
				return func(a *agentLine) bool { _, ok := test(a); return ok }, name
			}
		}
	}
	return nil, ""
}
