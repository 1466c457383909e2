package traps

import (
	"fmt"
	"strings"
)

// A difference is one that a URL may have to another one: a parameter, a final slash, upper case.
type difference struct {
	hash uint32
	name string // of a parameter, or one of those below
}

func (d difference) String() string {
	if d == upper || d == slash || d == order {
		return d.name
	}
	return "parameter " + d.name
}

// The kinds of hashes that aren't those of marks.
const (
	differenceSum kind = 128 + iota
	identitySum
)

var (
	upper = difference{sum(differenceSum, hashOf("/case")), "upper case"}
	slash = difference{sum(differenceSum, hashOf("/slash")), "a final slash"}
	order = difference{sum(differenceSum, hashOf("/order")), "the order of parameters"}
)

// A tally counts the pairs of answers whose URLs had one difference.
type tally struct{ alike, other uint8 }

// An answer is the text of a URL.
type answer struct {
	text uint32
	url  uint32 // hash of the URL, with the difference by which it is found
	form uint32
}

// A set is one of the differences of an address: by index, first those of its parameters.
type set uint32

// An identity is an address as its differences see it. To leave one out costs one step: the hash of
// a URL is the sum of those of its parts. So the order of parameters makes none.
type identity struct {
	room   [mostParts + 2]difference // see differences
	hashes [mostParts]uint64         // of the parameters
	number int                       // of parameters
	paths  [4]uint64                 // hashes of the name and the path: as it is, in lower case, without a final slash, both
	form   uint32
}

// differences returns those of the parameters, and then upper and slash.
func (id *identity) differences() []difference { return id.room[:id.number+2] }

// parts returns the hashes of the parameters.
func (id *identity) parts() []uint64 { return id.hashes[:id.number] }

// identityOf allocates nothing: it is made for each page, and for most links.
func identityOf(a *address) (id identity) {
	form := formOf(a.path).mixed()
	for i, p := range a.query() {
		before := 0 // ?a=1&a=2 isn't ?a=2&a=1
		for _, other := range a.query()[:i] {
			if other.name == p.name {
				before++
			}
		}
		name := hashOf(p.name)
		part := name.add('=').addString(p.value).add(0).add(byte(before))
		id.room[i] = difference{sum(differenceSum, name), p.name}
		id.hashes[i] = part.mixed()
		if isWord(p.value) {
			name = name.add('=').addString(p.value)
		}
		form += name.mixed()
	}
	id.number = a.number
	id.room[id.number] = upper
	id.room[id.number+1] = slash
	id.form = uint32(form>>32) ^ uint32(form)
	lower := strings.ToLower(a.path)
	name := hashOf(a.name)
	id.paths[0] = name.addString(a.path).mixed()
	id.paths[1] = name.addString(lower).mixed()
	id.paths[2] = name.addString(withoutSlash(a.path)).mixed()
	id.paths[3] = name.addString(withoutSlash(lower)).mixed()
	return id
}

func withoutSlash(path string) string {
	if len(path) > 1 {
		return strings.TrimSuffix(path, "/")
	}
	return path
}

// without returns the hash of the URL without the differences of a set.
func (id *identity) without(left set) uint32 {
	whole := id.paths[left>>id.number&3]
	for i, part := range id.parts() {
		if left&(1<<i) == 0 {
			whole += part
		}
	}
	return sum(identitySum, hash(whole))
}

// key returns the key of d together with a hash: in answers the hash of a URL without d, and in
// tallies that of a form.
func key(d difference, url uint32) uint32 {
	return sum(differenceSum, hash(uint64(d.hash)<<32|uint64(url)))
}

// isIdle reports whether a difference changes nothing on URLs of a form. If the form has fewer than
// two pairs of answers, the pairs of all forms decide. d must then never have changed anything.
func (h *Host) isIdle(d difference, form uint32) bool {
	if t, _ := h.tallies.get(key(d, form)); t.alike+t.other >= 2 {
		return t.alike >= 2 && int(t.alike) > 8*int(t.other)
	}
	t, _ := h.tallies.get(d.hash)
	return t.alike >= 3 && t.other == 0
}

// idle returns the differences of a URL that change nothing.
func (h *Host) idle(id *identity) (idle set) {
	if h.tallies.size() == 0 {
		return 0
	}
	for i, d := range id.differences() {
		if h.isIdle(d, id.form) {
			idle |= 1 << i
		}
	}
	return idle
}

// copied reports whether a URL differs from one that was asked for only in what changes nothing.
func (h *Host) copied(a *address) (d difference, isCopy bool) {
	if !h.learns || h.tallies.size() == 0 && a.number < 2 {
		return d, false
	}
	id := identityOf(a)
	idle := h.idle(&id)
	bare := id.without(idle)
	for i, d := range id.differences() {
		if idle&(1<<i) == 0 {
			continue
		}
		if h.wasAsked(bare) || h.wasAsked(key(d, bare)) {
			return d, true
		}
	}
	for _, d := range h.names { // the URL may be the plain one of an answer that had d
		if t, _ := h.tallies.get(d.hash); t.alike == 0 {
			continue
		}
		was, ok := h.answers.get(key(d, bare))
		if ok && h.isIdle(d, was.form) {
			return d, true
		}
	}
	if h.wasAsked(bare) { // with its parameters in another order, or it is the plain URL of copies
		return order, true
	}
	return d, false
}

// wasAsked reports whether the URL of a hash is among those that are remembered.
func (h *Host) wasAsked(url uint32) bool {
	if _, ok := h.answers.get(url); ok {
		return true
	}
	_, ok := h.asked.get(url)
	return ok
}

// compare notes which differences of a URL to those asked before change nothing in the text. To
// lifted it adds those that have changed something after all.
func (h *Host) compare(a *address, text uint32, lifted []Standing) []Standing {
	id := identityOf(a)
	idle := h.idle(&id)
	own := id.without(0)
	for i, d := range id.differences() {
		only := set(1) << i
		bare := id.without(idle | only)
		now := answer{text: text, url: id.without(idle &^ only), form: id.form}
		was, ok := h.answers.get(key(d, bare))
		if !ok {
			was, ok = h.answers.get(bare)
		}
		if ok && was.url != now.url {
			lifted = h.tally(d, id.form, was.text == text, lifted)
		}
		if bare != own { // or else the answer is found by own
			h.answers.put(key(d, bare), now)
		}
	}
	for _, d := range h.names {
		was, ok := h.answers.get(key(d, own))
		if ok && was.url != own {
			lifted = h.tally(d, was.form, was.text == text, lifted)
		}
	}
	h.addNames(a)
	now := answer{text: text, url: own, form: id.form}
	h.answers.put(own, now)
	if bare := id.without(h.idle(&id)); bare != own {
		h.answers.put(bare, answer{text: text, url: bare, form: id.form})
		h.asked.put(bare, struct{}{})
	}
	if h.anyIdle {
		h.asked.put(own, struct{}{})
	}
	return lifted
}

// addNames notes the parameters of a URL, which a plain URL may have had.
func (h *Host) addNames(a *address) {
	for _, p := range a.query() {
		if len(h.names) == maxNames {
			return
		}
		d := difference{sum(differenceSum, hashOf(p.name)), p.name}
		isKnown := false
		for _, known := range h.names {
			isKnown = isKnown || known.hash == d.hash
		}
		if !isKnown && !p.isRest {
			d.name = strings.Clone(p.name) // it is kept, and the URL isn't
			h.names = append(h.names, d)
		}
	}
}

// tally counts two answers whose URLs have the difference d, of a form and in all. To lifted it
// adds the difference if it was idle, and isn't any more.
func (h *Host) tally(d difference, form uint32, alike bool, lifted []Standing) []Standing {
	wasIdle := h.isIdle(d, form)
	wasEver := h.isIdle(d, 0) // on forms that have too few answers
	for _, k := range []uint32{d.hash, key(d, form)} {
		t, _ := h.tallies.get(k)
		h.tallies.put(k, t.with(alike))
	}
	isIdle := h.isIdle(d, form)
	h.anyIdle = h.anyIdle || isIdle
	if wasIdle && !isIdle || wasEver && !h.isIdle(d, 0) {
		lifted = append(lifted, Standing{Level: 0, Mark: d.hash})
	}
	return lifted
}

// with returns t with one more pair.
func (t tally) with(alike bool) tally {
	if alike {
		t.alike++
	} else {
		t.other++
	}
	if max(t.alike, t.other) == 64 {
		t.alike /= 2
		t.other /= 2
	}
	return t
}

// String returns what is known of a mark for people.
func (y yield) String() string {
	switch {
	case y.pages == 0:
		return "no page was asked for yet"
	case y.fresh == 0:
		return fmt.Sprintf("none of its last %d pages was new", y.pages)
	}
	return fmt.Sprintf("%d of its last %d pages were new", y.fresh, y.pages)
}
