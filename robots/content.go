package robots

import (
	"fmt"
	"strings"

	"github.com/go-politeness/politeness/internal/sfv"
	"github.com/go-politeness/politeness/internal/weblink"
)

// A Purpose is a use of fetched pages that sites grant or refuse.
type Purpose uint8

// The purposes.
const (
	Train  Purpose = iota // to train or fine-tune a model
	Ground                // to give the page to a model that answers, such as for retrieval or summaries
	Search                // to build an index, and to show links and short excerpts

	purposes
)

// String returns "train", "ground" or "search".
func (p Purpose) String() string {
	if !p.Valid() {
		return fmt.Sprintf("Purpose(%d)", uint8(p))
	}
	return [purposes]string{"train", "ground", "search"}[p]
}

// Valid reports whether p is one of the purposes above.
func (p Purpose) Valid() bool { return p < purposes }

// A Preference is a site's statement about one purpose.
type Preference int8

// The preferences. Unstated is neither a grant nor a refusal.
const (
	Unstated Preference = iota
	Granted
	Refused
)

// String returns "unstated", "granted" or "refused".
func (p Preference) String() string {
	switch p {
	case Granted:
		return "granted"
	case Refused:
		return "refused"
	}
	return "unstated"
}

// An Answer is a Preference, and the place in which the site states it.
type Answer struct {
	Preference Preference
	Source     string // such as "Content-Signal, line 2", empty if Unstated
}

// Preferences are a site's statements about the use of one page, an Answer for each purpose. The
// zero value states nothing. They come from Rules.Preferences, HeaderPreferences and a MetaScanner.
// Merge joins those of one page.
type Preferences struct {
	Train, Ground, Search Answer

	// License is the address of the terms of the site, if the site names one. It comes from License
	// (RSL 1.0), from tdm-policy (TDMRep), or from a Link with rel="license" to an RSL file. The
	// package doesn't fetch the terms. An address of more than 1,024 bytes is left out.
	License string
}

// For returns the Answer for a purpose.
func (p Preferences) For(purpose Purpose) Answer { return *p.answer(purpose) }

func (p *Preferences) answer(purpose Purpose) *Answer {
	switch purpose {
	case Train:
		return &p.Train
	case Ground:
		return &p.Ground
	case Search:
		return &p.Search
	}
	return new(Answer)
}

// Refused returns the first of the given purposes that is refused. The result ok is false if none
// is. Use it before you use a page for these purposes.
func (p Preferences) Refused(of []Purpose) (purpose Purpose, ok bool) {
	for _, purpose := range of {
		if p.For(purpose).Preference == Refused {
			return purpose, true
		}
	}
	return 0, false
}

// Merge returns the stricter answer of p and o for each purpose. A refusal is stricter than a
// grant, and a grant is stricter than Unstated. If both are equally strict, the answer is p's.
func (p Preferences) Merge(o Preferences) Preferences {
	for purpose := range purposes {
		p.state(purpose, o.For(purpose))
	}
	if p.License == "" {
		p.License = o.License
	}
	return p
}

// state sets the response for a purpose to a if that is stricter.
func (p *Preferences) state(purpose Purpose, a Answer) {
	old := p.answer(purpose)
	if a.Preference > old.Preference {
		*old = a
	}
}

// String returns the Answers that are stated, such as "train refused (Content-Signal, line 2),
// search granted (Content-Signal, line 2)", and the license.
func (p Preferences) String() string {
	var parts []string
	for purpose := range purposes {
		a := p.For(purpose)
		if a.Preference == Unstated {
			continue
		}
		part := purpose.String() + " " + a.Preference.String()
		if a.Source != "" {
			part += " (" + a.Source + ")"
		}
		parts = append(parts, part)
	}
	if p.License != "" {
		parts = append(parts, "license "+p.License)
	}
	return strings.Join(parts, ", ")
}

// Preferences returns the statements of robots.txt about the use of target by the crawler. A target
// is as for Test. Two kinds of lines count:
//
//   - Content-Usage lines (IETF AIPREF) with the longest path that matches.
//   - Content-Signal lines in the crawler's groups, and before all groups.
//
// Of two statements, the stricter counts. If robots.txt disallows target, Preferences returns no
// statement.
func (r *Rules) Preferences(target string) Preferences {
	x := r.extra()
	// Most files state nothing, so this comes before the test of target.
	if x.usages == nil && x.stated == (Preferences{}) {
		return Preferences{}
	}
	if !r.Test(target).Allowed {
		return Preferences{}
	}
	if x.usages == nil {
		return x.stated // without an allocation
	}
	q := question{path: r.normal(target)}
	return r.usage(&q).Merge(x.stated)
}

// usage returns the preferences by the Content-Usage lines with the longest path that matches q's.
func (r *Rules) usage(q *question) Preferences {
	var stated Preferences
	longest := -1
	usages := r.extra().usages
	// Each star begins a search, which counts twice if the stretch has bytes beyond ASCII. With
	// fewer stars q never comes to need the suffixes.
	if strings.Count(view(usages), "*") > few/2 {
		q.suffixes = appendSuffixes(nil, q.path)
	}
	for num, value := range usages.all() {
		scope, statement := usageLine(value)
		value, end := strings.CutSuffix(scope, "$")
		pattern := parsePattern(value, end, r.exact)
		// The comparison of lengths is cheap, and decides about most lines of a long file.
		if pattern.length < longest || !q.matches(pattern.text, pattern.flags) {
			continue
		}
		if pattern.length > longest {
			stated = Preferences{} // a longer path replaces shorter ones, even if it states nothing
		}
		longest = pattern.length
		stated = stated.Merge(usagePreferences(statement, fmt.Sprintf("Content-Usage, line %d", num)))
	}
	return stated
}

// statedUsages holds the preferences by the Content-Usage lines read so far, by path.
type statedUsages map[string]Preferences

// adds reports whether a line with this value is the first for its path or stricter than the
// earlier ones. Other lines are left out, so that a file of many such lines isn't read again for
// each page.
func (s statedUsages) adds(value string) bool {
	path, statement := usageLine(value)
	before, known := s[path]
	after := before.Merge(usagePreferences(statement, ""))
	s[path] = after
	return !known || after != before
}

// usageLine divides the value of a Content-Usage line into its path, empty for all paths, and the
// statement.
func usageLine(value string) (path, statement string) {
	if !strings.HasPrefix(value, "/") {
		return "", value
	}
	path = leading(value, isNoBlank)
	return path, strings.TrimLeft(value[len(path):], " \t")
}

// usageLabels are the categories of AIPREF's vocabulary; ai-use is one of earlier drafts.
var usageLabels = [purposes]string{Train: "train-ai", Ground: "ai-use", Search: "search"}

// usagePreferences reads a statement of AIPREF's vocabulary: a dictionary (RFC 9651) of labels, y
// for yes, n for no. A statement that is no dictionary states nothing.
func usagePreferences(statement, source string) (p Preferences) {
	d, err := sfv.ParseDictionary(statement)
	if err != nil {
		return p
	}
	for purpose, label := range usageLabels {
		item, _ := d.Get(label) // the zero Item, whose Value is nil, if there is none
		switch item.Value {
		case sfv.Token("y"):
			p.state(Purpose(purpose), Answer{Granted, source})
		case sfv.Token("n"):
			p.state(Purpose(purpose), Answer{Refused, source})
		}
	}
	return p
}

// signalPreferences reads a Content-Signal, such as "search=yes, ai-train=no, use=reference"
// (contentsignals.org), which has no strict grammar. The label use sets how much of a page may be
// kept at most, so it refuses and never grants: "reference" (an index, excerpts and a link) refuses
// training, and "immediate" (nothing is kept) refuses an index as well.
func signalPreferences(statement, source string) (stated Preferences) {
	separates := func(r rune) bool { return r == ',' || r == ';' }
	for item := range strings.FieldsFuncSeq(statement, separates) {
		label, token, _ := strings.Cut(item, "=")
		label = strings.ToLower(trim(label))
		token = strings.ToLower(trim(token))
		answer := Answer{Unstated, source}
		switch token {
		case "yes":
			answer.Preference = Granted
		case "no":
			answer.Preference = Refused
		}
		switch label {
		case "ai-train":
			stated.state(Train, answer)
		case "ai-input":
			stated.state(Ground, answer)
		case "search":
			stated.state(Search, answer)
		case "use":
			capped := Answer{Refused, strings.Replace(source, "Content-Signal", "Content-Signal use="+token, 1)}
			if token == "immediate" || token == "reference" {
				stated.state(Train, capped)
			}
			if token == "immediate" {
				stated.state(Search, capped)
			}
		}
	}
	return stated
}

// HeaderPreferences returns the statements of a response header about the use of the body. The
// crawler is known by its product tokens, or by User-Agent headers. HeaderPreferences reads these
// fields:
//
//   - Content-Usage and Content-Signal,
//   - tdm-reservation and tdm-policy (TDMRep),
//   - X-Robots-Tag, for noai and noml and, for an image, noimageai.
//
// The keys of header must be canonical, as in an http.Header.
func HeaderPreferences(header map[string][]string, product ...string) Preferences {
	var stated Preferences
	// A dictionary that is divided among several lines is one (RFC 9651, section 4.2).
	if lines := header["Content-Usage"]; len(lines) > 0 {
		stated = usagePreferences(strings.Join(lines, ", "), "Content-Usage header")
	}
	for _, line := range header["Content-Signal"] {
		stated = stated.Merge(signalPreferences(line, "Content-Signal header"))
	}
	for _, line := range header["Tdm-Reservation"] {
		stated = stated.Merge(reservation(line, "tdm-reservation header"))
	}
	if lines := header["X-Robots-Tag"]; len(lines) > 0 {
		types := header["Content-Type"]
		image := len(types) > 0 && hasAnyPrefix(trim(types[0]), []string{"image/"})
		stated = stated.Merge(ParseTags(lines, product...).preferences("X-Robots-Tag", image))
	}
	if lines := header["Tdm-Policy"]; len(lines) > 0 {
		stated.License = terms(lines[0])
	}
	// Other links of rel="license" are about the page itself, such as those to Creative Commons.
	for _, link := range weblink.Parse(header["Link"]) {
		if stated.License == "" && link.Is("license") && link.Type == "application/rsl+xml" { // RSL 1.0
			stated.License = terms(link.Target)
		}
	}
	return stated
}

// reservation reads a tdm-reservation: 1 reserves text and data mining, which is training and
// grounding alike, and 0 doesn't. Anything else states nothing.
func reservation(value, source string) (p Preferences) {
	for item := range strings.SplitSeq(value, ",") { // a proxy may have joined several lines
		a := Answer{Source: source}
		switch trim(item) {
		case "0":
			a.Preference = Granted
		case "1":
			a.Preference = Refused
		}
		p.state(Train, a)
		p.state(Ground, a)
	}
	return p
}

// preferences returns the preferences that noai, noml and, for an image, noimageai state.
func (d Directives) preferences(source string, image bool) (p Preferences) {
	// Of several directives the one is named that reserves the most.
	switch {
	case d.NoAI:
		p.Train = Answer{Refused, source + " noai"}
		p.Ground = p.Train
	case d.NoImageAI && image:
		p.Train = Answer{Refused, source + " noimageai"}
		p.Ground = p.Train
	case d.NoML:
		p.Train = Answer{Refused, source + " noml"}
	}
	return p
}

// maxTerms is the length of the longest address of terms that is returned. A longer one would be
// kept for each page.
const maxTerms = 1 << 10

// terms returns the address of terms, "" for one that is too long.
func terms(url string) string {
	url = trim(url)
	if len(url) > maxTerms {
		return ""
	}
	return url
}

// License returns the addresses of the licenses in License lines (RSL 1.0). If the crawler's groups
// have such lines, these count. Otherwise the lines before all groups count.
func (r *Rules) License() []string {
	var urls []string
	for _, url := range r.extra().licenses.all() {
		urls = append(urls, url)
	}
	return urls
}
