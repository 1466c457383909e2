package traps

import (
	"regexp"
	"slices"
	"strings"
)

// A replay crawls a fake site by the rule, as package crawl does.
type replay struct {
	host  *Host
	turns Turns
	fifo  bool // the order without the rule
	lifo  bool // the last URL first

	inTime    bool // links of a page without anything new aren't late
	loud      bool // noindex is ignored
	unfolded  bool // digits count
	levelOnly bool // turns go to the first level alone

	seen    map[string]bool
	waiting [Levels][]waiting
	seq     int

	putBack int
	asked   []string
}

// A waiting URL is in the list of its level, the longest waiting first.
type waiting struct {
	url  string
	seq  int
	late bool
	mark uint32
}

func (r *replay) add(url string, late bool) {
	if r.seen[url] {
		return
	}
	r.seen[url] = true
	r.seq++
	r.put(waiting{url: url, seq: r.seq, late: late}, r.standing(url, late))
}

func (r *replay) standing(url string, late bool) Standing {
	if r.fifo || r.lifo {
		return Standing{}
	}
	s := r.host.Standing(url)
	if late && s.Level == 0 {
		s = Standing{Level: 1}
	}
	return s
}

func (r *replay) put(w waiting, s Standing) {
	w.mark = s.Mark
	list := r.waiting[s.Level]
	at, _ := slices.BinarySearchFunc(list, w.seq, func(w waiting, seq int) int { return w.seq - seq })
	r.waiting[s.Level] = slices.Insert(list, at, w)
}

// next takes the next URL, and puts those back that stand too high.
func (r *replay) next() (w waiting, ok bool) {
	for {
		var has [Levels]bool
		for level := range has {
			has[level] = len(r.waiting[level]) > 0
		}
		turns := r.turns
		level, ok := r.turns.Next(has)
		if !ok {
			return w, false
		}
		if r.levelOnly {
			level = following(has, -1)
		}
		list := r.waiting[level]
		if r.lifo {
			w = list[len(list)-1]
			r.waiting[level] = list[:len(list)-1]
			return w, true
		}
		w = list[0]
		r.waiting[level] = list[1:]
		s := r.standing(w.url, w.late)
		if s.Level <= level {
			return w, true
		}
		r.turns = turns // it was none
		r.put(w, s)
		r.putBack++
	}
}

// lift brings the URLs forward that marks had put back.
func (r *replay) lift(lifted []Standing) {
	for _, l := range lifted {
		for level := l.Level + 1; level < Levels; level++ {
			var stay []waiting
			for _, w := range r.waiting[level] {
				if w.mark != l.Mark {
					stay = append(stay, w)
				} else if s := r.standing(w.url, w.late); s.Level >= level {
					w.mark = s.Mark
					stay = append(stay, w)
				} else {
					r.put(w, s)
				}
			}
			r.waiting[level] = stay
		}
	}
}

var digits = regexp.MustCompile(`[0-9]+`)

// pageOf returns what a page shows.
func (r *replay) pageOf(p page) Page {
	shown := Page{NotNew: p.noindex && !r.loud}
	for _, line := range p.lines {
		folded := line
		if !r.unfolded {
			folded = digits.ReplaceAllString(line, "0")
		}
		hash := lineHash(folded)
		shown.Lines = append(shown.Lines, hash)
		shown.Text += uint64(hash) * factor
	}
	return shown
}

func lineHash(line string) uint32 { return uint32(hashOf(line).mixed() >> 32) }

// figures are the numbers of requests until parts of the pages were had; 0: they weren't.
type figures struct{ most, nearly, all, requests int }

// crawl asks for the URLs of a site until all its pages were had, or limit requests were made. To
// the end goes on until no URL is left.
func (r *replay) crawl(s *site, limit int, toTheEnd bool) (f figures) {
	if r.host == nil {
		r.host = NewHost()
	}
	r.seen = map[string]bool{}
	had := map[string]bool{}
	r.add(s.start, false)
	for f.requests < limit {
		w, ok := r.next()
		if !ok {
			break
		}
		f.requests++
		r.asked = append(r.asked, w.url)
		path, query := split(w.url)
		p := s.get(path, query)
		if s.real[p.id] {
			had[p.id] = true
		}
		if f.most == 0 && len(had)*100 >= 90*len(s.real) {
			f.most = f.requests
		}
		if f.nearly == 0 && len(had)*100 >= 99*len(s.real) {
			f.nearly = f.requests
		}
		if f.all == 0 && len(had) == len(s.real) {
			f.all = f.requests
			if !toTheEnd {
				break
			}
		}
		late := false
		if !r.fifo && !r.lifo {
			isNew, lifted := r.host.Learn(w.url, r.pageOf(p))
			late = !isNew && !r.inTime
			r.lift(lifted)
		}
		for _, link := range p.links {
			r.add(link, late)
		}
	}
	return f
}

func split(url string) (path string, query []kv) {
	path, rest, _ := strings.Cut(url, "?")
	for _, p := range strings.FieldsFunc(rest, func(c rune) bool { return c == '&' || c == ';' }) {
		k, v, _ := strings.Cut(p, "=")
		query = append(query, kv{k, v})
	}
	return path, query
}
