package traps

import "testing"

// A want is how many requests a page a site took in the simulation from which the rule comes, until
// all its pages were had.
type want struct {
	site      *site
	simulated float64
}

// simulated returns the sites of the simulation.
func simulated() []want {
	return []want{
		{site: woo(1), simulated: 1.10},
		{site: layered(1), simulated: 1.17},
		{site: events(1), simulated: 1.23},
		{site: forum(1, "forum", "sid"), simulated: 1.06},
		{site: forum(1, "forum, unknown sid", "zen"), simulated: 1.06},
		{site: wiki(1, "wiki", false), simulated: 1.09},
		{site: wiki(1, "wiki, silent", true), simulated: 2.25},
		{site: doku(1), simulated: 1.19},
		{site: forge(1), simulated: 1.32},
		{site: blog(1), simulated: 1.44},
		{site: relative(1), simulated: 1.41},
		{site: listing(1), simulated: 1.03},
		{site: numbers(1), simulated: 7.50},
		{site: byID(1), simulated: 1},
		{site: daily(1), simulated: 1},
		{site: template(1), simulated: 1},
		{site: versions(1), simulated: 1},
	}
}

// TestSitesOfTheSimulation: the rule needs what its simulation needed, within a tenth. It leaves two
// ingredients of the simulation out: lines that repeat the URL count, and paths have no skeleton.
func TestSitesOfTheSimulation(t *testing.T) {
	for _, w := range simulated() {
		most := 1.1 * w.simulated
		if got := needed(&replay{}, w.site, most); got > most {
			t.Errorf("%s: %.2f requests a page, and %.2f in the simulation", w.site.name, got, w.simulated)
		} else {
			t.Logf("%s: %.2f requests a page, and %.2f in the simulation", w.site.name, got, w.simulated)
		}
	}
}

// needed returns the number of requests until all pages of a site were had, as a multiple of their
// number; if it is beyond most, a number above that.
func needed(r *replay, s *site, most float64) float64 {
	pages := float64(len(s.real))
	f := r.crawl(s, int(most*pages)+1, false)
	if f.all == 0 {
		return most + 1
	}
	return float64(f.all) / pages
}

// TestOtherSites has the figures of other software: of the rule, of the order without it, and of the
// order in which the newest URL goes first.
func TestOtherSites(t *testing.T) {
	const most = 4
	for _, s := range fakes() {
		rule := needed(&replay{}, s, most)
		first := needed(&replay{fifo: true}, s, most)
		last := needed(&replay{lifo: true}, s, most)
		t.Logf("%-10s %3d pages: %.2f by the rule, %.2f first in first out, %.2f last in first out (5: not within 4)", s.name, len(s.real), rule, first, last)
		bound := first
		switch s.name {
		case "sphinx": // its copies differ in some lines, and so lift the marks that they have in common
			bound = 1.25 * first
		case "hugo":
			bound = 1
		case "mycal": // one event, of twelve, is found last
		case "cgit":
			bound = 2.2
		case "dspace", "redmine":
			bound = 1.5
		case "gitlab", "discourse": // many copies have the words of real pages in their paths
			bound = 1.8
		default:
			bound = 1.3
		}
		if rule > bound {
			t.Errorf("%s: %.2f requests a page, want %.2f at most", s.name, rule, bound)
		}
	}
}

// TestEachIngredientIsWorthIt: without any ingredient of the rule a site costs more.
func TestEachIngredientIsWorthIt(t *testing.T) {
	host := func(change func(*Host)) *replay {
		h := NewHost()
		change(h)
		return &replay{host: h}
	}
	drop := func(kinds kind) *replay { return host(func(h *Host) { h.drop = kinds }) }
	for _, row := range []struct {
		name    string
		site    *site
		without *replay
		worth   float64 // requests a page
	}{
		{"links of dry pages are late", wiki(1, "wiki", false), &replay{inTime: true}, 0.05},
		{"differences are learned", forum(1, "forum", "sid"), host(func(h *Host) { h.learns = false }), 0.9},
		{"a parameter has to prove itself", woo(1), host(func(h *Host) { h.untried = 1 }), 0.3},
		{"digits are folded in lines", forum(1, "forum", "sid"), &replay{unfolded: true}, 0.9},
		{"the most suspect mark pays", wiki(1, "wiki", false), host(func(h *Host) { h.allPay = true }), 0.3},
		{"noindex counts", wiki(1, "wiki", false), &replay{loud: true}, 0.9},
		{"names of parameters", woo(1), drop(nameMark), 0.3},
		{"names on a form of path", cgit(), drop(placeMark), 0.9},
		{"values that are words", nuke(), drop(valueMark), 0.3},
		{"beginnings of values", wiki(1, "wiki", false), drop(prefixMark), 0.9},
		{"forms of paths", events(1), drop(formMark), 0},
		{"words of paths", cgit(), drop(wordMark), 0.9},
	} {
		rule := needed(&replay{}, row.site, 4)
		without := needed(row.without, row.site, rule+1)
		t.Logf("%s: %s costs %.2f, and %.2f without", row.name, row.site.name, rule, without)
		if without < rule+row.worth {
			t.Errorf("%s: %s costs %.2f without, want %.2f more than %.2f", row.name, row.site.name, without, row.worth, rule)
		}
	}
}
