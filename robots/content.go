package robots

import (
	"strings"
)

// A Preference is what a site says of one use of its content.
type Preference int8

// The preferences. Unstated is neither: laws and customs decide.
const (
	Unstated Preference = iota
	Permitted
	Refused
)

// String returns "unstated", "permitted" or "refused".
func (p Preference) String() string {
	switch p {
	case Permitted:
		return "permitted"
	case Refused:
		return "refused"
	}
	return "unstated"
}

// stricter returns the one of two statements that counts: a refusal before a permission before
// none.
func stricter(a, b Preference) Preference { return max(a, b) }

// A Signal is what the crawler's groups say by Content-Signal lines, for example
// "Content-Signal: search=yes, ai-train=no" (contentsignals.org, spread by Cloudflare).
type Signal struct {
	Search  Preference // search: to build an index and to show links and short excerpts
	AIInput Preference // ai-input: to ground an answer of a model
	AITrain Preference // ai-train: to train or fine-tune a model
	Line    int        // of the first such line; 0: none
}

// ContentSignal returns what the crawler's groups say by Content-Signal. Where lines contradict
// each other, the refusal counts.
func (r *Rules) ContentSignal() Signal { return r.extra().signal }

// add takes in the value of one more line.
func (s *Signal) add(value string, line int) {
	if s.Line == 0 {
		s.Line = line
	}
	for label, token := range statements(value) {
		p := preference(token, "yes", "no")
		switch label {
		case "search":
			s.Search = stricter(s.Search, p)
		case "ai-input":
			s.AIInput = stricter(s.AIInput, p)
		case "ai-train":
			s.AITrain = stricter(s.AITrain, p)
		}
	}
}

// A Usage is what the crawler's groups say of a path by Content-Usage lines, for example
// "Content-Usage: /articles/ train-ai=n" (IETF AIPREF, draft-ietf-aipref-attach).
type Usage struct {
	TrainAI Preference // train-ai: to train or fine-tune a model
	AIUse   Preference // ai-use: to use with a model otherwise
	Search  Preference // search
	Line    int        // of the first line that counts; 0: none
}

// ContentUsage returns what the crawler's groups say of target by Content-Usage, of the lines
// with the longest path that matches. Where those contradict each other, the refusal counts.
// target is as for Test.
func (r *Rules) ContentUsage(target string) Usage {
	var u Usage
	longest := rank(0)
	path := ""
	for num, value := range r.extra().usages.all() {
		x := parseUsage(num, value, r.exact)
		if path == "" {
			path = r.normal(target)
		}
		if x.path.rank < longest && u.Line > 0 || !x.path.matches(path) {
			continue
		}
		if u.Line == 0 || x.path.rank > longest {
			u, longest = Usage{Line: x.line}, x.path.rank
		}
		u.TrainAI = stricter(u.TrainAI, x.trainAI)
		u.AIUse = stricter(u.AIUse, x.aiUse)
		u.Search = stricter(u.Search, x.search)
	}
	return u
}

// A usage is one Content-Usage line.
type usage struct {
	path                   pattern
	line                   int
	trainAI, aiUse, search Preference
}

// parseUsage reads the value of a Content-Usage line.
func parseUsage(num int, value string, exact bool) usage {
	u := usage{line: num}
	path := line{kind: kindDisallow}
	if strings.HasPrefix(value, "/") || strings.HasPrefix(value, "*") {
		i := strings.IndexAny(value, " \t")
		if i < 0 {
			i = len(value)
		}
		path.value, value = value[:i], value[i:]
	}
	u.path = parsePattern(&path, exact)
	for label, token := range statements(value) {
		p := preference(token, "y", "n")
		switch label {
		case "train-ai":
			u.trainAI = stricter(u.trainAI, p)
		case "ai-use":
			u.aiUse = stricter(u.aiUse, p)
		case "search":
			u.search = stricter(u.search, p)
		}
	}
	return u
}

// statements yields the label and the token, in lower case, of each "label=token" of a list.
func statements(list string) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for s := range strings.SplitSeq(list, ",") {
			label, token, _ := strings.Cut(s, "=")
			if !yield(strings.ToLower(trim(label)), strings.ToLower(trim(token))) {
				return
			}
		}
	}
}

func preference(token, yes, no string) Preference {
	switch token {
	case yes:
		return Permitted
	case no:
		return Refused
	}
	return Unstated
}

// License returns the addresses of the licenses that the file states for the crawler's groups
// by License lines (RSL 1.0), or, where those state none, for the whole file, before any group.
func (r *Rules) License() []string {
	var urls []string
	for _, url := range r.extra().licenses.all() {
		urls = append(urls, url)
	}
	return urls
}
