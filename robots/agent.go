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
	b := builder{file: f, exact: f.opt.GoogleExact}
	if chosen != nil {
		for i, g := range f.groups {
			b.add(g, func(a agentLine) bool { return a.group == i && chosen(a) })
		}
	}
	return b.rules(strings.Clone(name))
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
