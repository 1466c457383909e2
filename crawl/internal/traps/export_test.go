package traps

// A Site is a fake site for tests of package crawl.
type Site struct {
	Name      string
	Start     string
	Simulated float64         // requests a page in the simulation, until all pages were had; 0: it wasn't in it
	Real      map[string]bool // ids of the pages with content of their own
	Get       func(path, query string) SitePage

	site *site
}

// A SitePage is an answer of a Site.
type SitePage struct {
	ID      string // of the page, if it has content of its own
	Lines   []string
	Links   []string
	NoIndex bool
}

// Sites returns the sites of the simulation, and those after other software.
func Sites() (sites []*Site) {
	for _, w := range simulated() {
		s := exported(w.site)
		s.Simulated = w.simulated
		sites = append(sites, s)
	}
	for _, s := range fakes() {
		sites = append(sites, exported(s))
	}
	return sites
}

func exported(s *site) *Site {
	return &Site{Name: s.name, Start: s.start, Real: s.real, site: s, Get: func(path, query string) SitePage {
		_, q := split("?" + query)
		p := s.get(path, q)
		return SitePage{ID: p.id, Lines: p.lines, Links: p.links, NoIndex: p.noindex}
	}}
}

// Needed returns the requests a page that the rule needs by itself, without a crawl.
func (s *Site) Needed(most float64) float64 { return needed(&replay{}, s.site, most) }

// InOrder returns the first URLs that are asked for in the order in which they were found.
func (s *Site) InOrder(most int) []string {
	r := &replay{fifo: true}
	r.crawl(s.site, most, true)
	return r.asked
}
