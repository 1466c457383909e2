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
	var ps []pattern
	if chosen != nil {
		for from := 0; from < len(f.agents); {
			g := f.agents[from].group
			to, named := from, false
			for ; to < len(f.agents) && f.agents[to].group == g; to++ {
				named = named || chosen(f.agents[to])
			}
			if named {
				ps = f.patterns(f.groups[g], ps)
			}
			from = to
		}
	}
	r.compiled = compile(ps)
	return r
}

// patterns appends the rules of a group.
func (f *File) patterns(g group, ps []pattern) []pattern {
	x := lex(f.text[:g.end], g.start, g.line)
	var l line
	for x.next(&l) {
		if l.kind != kindAllow && l.kind != kindDisallow {
			continue
		}
		ps = append(ps, parsePattern(&l, f.opt.GoogleExact))
		if l.kind == kindAllow {
			if p, ok := indexAlternative(&l, f.opt.GoogleExact); ok {
				ps = append(ps, p)
			}
		}
	}
	return ps
}

// choose returns which User-agent lines name the crawler, nil if none does, and the name.
func (f *File) choose(product []string) (func(agentLine) bool, string) {
	var tests []func(agentLine) (string, bool)
	if f.opt.GoogleExact {
		tests = append(tests, func(a agentLine) (string, bool) {
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
			tests = append(tests, func(a agentLine) (string, bool) {
				token := leading(a.value, in)
				return token, equalFold(token, p)
			})
		}
	}
	tests = append(tests, func(a agentLine) (string, bool) { return "*", isGlobal(a.value) })
	for i, test := range tests {
		for _, a := range f.agents {
			if i < len(tests)-1 && isGlobal(a.value) {
				continue // a star is no crawler's name
			}
			if name, ok := test(a); ok {
				return func(a agentLine) bool { _, ok := test(a); return ok }, name
			}
		}
	}
	return nil, ""
}
