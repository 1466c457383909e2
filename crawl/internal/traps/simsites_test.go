package traps

import (
	"fmt"
	"hash/fnv"
	"math/rand"
	"slices"
	"sort"
	"strings"
)

// A page is what a fake site answers. id names its content; empty: none of its own.
type page struct {
	id      string
	lines   []string
	links   []string
	noindex bool // or its canonical URL is another one
}

type site struct {
	name, after, start string
	harmless           bool
	real               map[string]bool // ids
	get                func(path string, q []kv) page
}

type kv struct{ k, v string }

var vocabulary = strings.Fields(`amber basin cedar delta ember fjord glade heron inlet juniper kelp larch marsh nettle orchid
	pebble quartz ridge slate thicket umber valley willow yarrow zephyr anchor barley copper dagger easel falcon garnet hollow
	ivory jasper kettle ladder mantle needle oyster pepper quiver rafter saddle timber urchin velvet walnut anvil bellow candle
	drawer engine funnel gutter hammer icicle jacket kernel lantern magnet nozzle oboe pulley ribbon socket trowel viola wagon`)

// texts has what text has made, which is asked for again and again.
var texts = map[string][]string{}

// text returns n lines that belong to key alone, without digits.
func text(key string, n int) []string {
	known := fmt.Sprint(n, " ", key)
	if texts[known] == nil {
		texts[known] = makeText(key, n)
	}
	return slices.Clone(texts[known])
}

func makeText(key string, n int) (lines []string) {
	h := fnv.New64a()
	h.Write([]byte(key))
	r := rand.New(rand.NewSource(int64(h.Sum64())))
	for range n {
		var b strings.Builder
		for range 7 + r.Intn(6) {
			b.WriteString(vocabulary[r.Intn(len(vocabulary))])
			b.WriteByte(' ')
		}
		lines = append(lines, strings.TrimSpace(b.String()))
	}
	return lines
}

func slug(key string) string { return strings.Join(strings.Fields(text("slug"+key, 1)[0])[:3], "-") }
func title(s string) string  { return strings.ReplaceAll(s, "-", " ") }
func val(q []kv, k string) string {
	for _, p := range q {
		if p.k == k {
			return p.v
		}
	}
	return ""
}
func atoi(s string) int { return number(s) }

func frame(name string, lines ...string) []string {
	return append([]string{name, "Home", "About us", "Contact", "Search this site", "Copyright 2024 " + name, "Page made in " + fmt.Sprint(len(lines)*7) + " ms"}, lines...)
}

func hex(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.Intn(16)]
	}
	return string(b)
}

// woo is a shop after WooCommerce: layered navigation, sort orders, add-to-cart, tags, compare lists.
func woo(seed int64) *site {
	r := rand.New(rand.NewSource(seed))
	const products, perPage, cats = 240, 16, 6
	s := &site{name: "shop", after: "WooCommerce", start: "/", real: map[string]bool{"home": true}}
	facets := []struct {
		name   string
		values []string
	}{
		{"filter_color", strings.Fields("red blue green black white")},
		{"filter_size", strings.Fields("s m l xl")},
		{"filter_brand", strings.Fields("acme zeta orion")},
		{"rating_filter", strings.Fields("3 4 5")},
		{"orderby", strings.Fields("price price-desc date popularity rating")},
		{"min_price", strings.Fields("10 20 50")},
	}
	attr := make([][]int, products)
	slugs := make([]string, products)
	index := map[string]int{}
	for i := range attr {
		for _, f := range facets {
			attr[i] = append(attr[i], r.Intn(len(f.values)))
		}
		slugs[i] = slug(fmt.Sprint("woo", seed, i))
		index[slugs[i]] = i
		s.real["p:"+slugs[i]] = true
	}
	list := func(base string, in []int, pageNo int, q []kv) page {
		var got []int
	next:
		for _, i := range in {
			for k, f := range facets {
				if v := val(q, f.name); v != "" && f.name != "orderby" && f.name != "min_price" && f.values[attr[i][k]] != v {
					continue next
				}
			}
			got = append(got, i)
		}
		if o := val(q, "orderby"); o != "" {
			rr := rand.New(rand.NewSource(int64(len(o))))
			rr.Shuffle(len(got), func(a, b int) { got[a], got[b] = got[b], got[a] })
		}
		p := page{lines: frame("Shop", "Filter by")}
		n := (len(got) + perPage - 1) / perPage
		lo := min(len(got), (pageNo-1)*perPage)
		for _, i := range got[lo:min(len(got), lo+perPage)] {
			p.lines = append(p.lines, title(slugs[i])+" new offer", "Add to cart")
			p.links = append(p.links, "/product/"+slugs[i]+"/", "/product/"+slugs[i]+"/?add_to_wishlist="+fmt.Sprint(i))
			p.links = append(p.links, with(base, q, kv{"add-to-cart", fmt.Sprint(i)}))
		}
		for _, f := range facets {
			for _, v := range f.values {
				p.links = append(p.links, with(base, q, kv{f.name, v}))
			}
		}
		for k := 1; k <= n; k++ {
			p.links = append(p.links, with(fmt.Sprintf("%spage/%d/", base, k), q))
		}
		return p
	}
	cat := make([][]int, cats)
	all := make([]int, products)
	for i := range products {
		cat[i%cats] = append(cat[i%cats], i)
		all[i] = i
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.Trim(path, "/"), "/")
		pageNo := 1
		if len(seg) > 2 && seg[len(seg)-2] == "page" {
			pageNo = atoi(seg[len(seg)-1])
			seg = seg[:len(seg)-2]
		}
		switch {
		case seg[0] == "":
			p := page{id: "home", lines: frame("Shop", text("woohome", 4)...), links: []string{"/shop/"}}
			for c := range cats {
				p.links = append(p.links, fmt.Sprintf("/product-category/%s/", vocabulary[c]))
			}
			return p
		case seg[0] == "shop":
			return list("/shop/", all, pageNo, q)
		case seg[0] == "product-category":
			for c := range cats {
				if seg[1] == vocabulary[c] {
					p := list("/product-category/"+seg[1]+"/", cat[c], pageNo, q)
					return p
				}
			}
		case seg[0] == "product-tag":
			return list("/product-tag/"+seg[1]+"/", all[:40], pageNo, q)
		case seg[0] == "product":
			i, ok := index[seg[1]]
			if !ok {
				break
			}
			p := page{id: "p:" + seg[1], lines: frame("Shop", append(text(seg[1], 6), title(seg[1])+" new offer", "Add to cart")...)}
			for k := 1; k < 5; k++ {
				p.links = append(p.links, "/product/"+slugs[(i+k*7)%products]+"/")
				p.lines = append(p.lines, title(slugs[(i+k*7)%products])+" new offer")
			}
			p.links = append(p.links, "/product-tag/"+vocabulary[i%9]+"/", path+"?add-to-cart="+fmt.Sprint(i), "/compare/?ids="+fmt.Sprint(i))
			return p
		}
		return page{lines: frame("Shop", "Nothing was found here")}
	}
	return s
}

// with returns base with the query q, in which add replaces values.
func with(base string, q []kv, add ...kv) string {
	var out []kv
	for _, p := range q {
		keep := true
		for _, a := range add {
			keep = keep && a.k != p.k
		}
		if keep {
			out = append(out, p)
		}
	}
	out = append(out, add...)
	sort.Slice(out, func(a, b int) bool { return out[a].k < out[b].k })
	var b strings.Builder
	b.WriteString(base)
	for i, p := range out {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(p.k + "=" + p.v)
	}
	return b.String()
}

// events is a town's site with The Events Calendar: months and days without end, both ways.
func events(seed int64) *site {
	s := &site{name: "calendar", after: "The Events Calendar", start: "/", real: map[string]bool{"home": true}}
	const posts, evs = 120, 60
	months := strings.Fields("January February March April May June July August September October November December")
	for i := range posts {
		s.real["n:"+slug(fmt.Sprint("post", seed, i))] = true
	}
	on := map[string]string{} // date -> event
	for i := range evs {
		e := slug(fmt.Sprint("ev", seed, i))
		s.real["e:"+e] = true
		on[fmt.Sprintf("2025-%02d-%02d", 1+i*12/evs, 1+(i*5)%28)] = e
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.Trim(path, "/"), "/")
		last := seg[len(seg)-1]
		nav := []string{"/", "/news/", "/events/month/2025-06/"}
		switch {
		case path == "/":
			return page{"home", frame("Town", text("townhome", 5)...), nav, false}
		case seg[0] == "news" && len(seg) == 1 || seg[0] == "news" && seg[1] == "page":
			k := max(1, atoi(last))
			p := page{lines: frame("Town"), links: append(nav, fmt.Sprintf("/news/page/%d/", min(k+1, posts/10)))}
			if k <= posts/10 {
				for i := (k - 1) * 10; i < k*10; i++ {
					n := slug(fmt.Sprint("post", seed, i))
					p.links, p.lines = append(p.links, "/news/"+n+"/"), append(p.lines, title(n)+" has been decided")
				}
			}
			return p
		case seg[0] == "news":
			return page{"n:" + last, frame("Town", text(last, 8)...), append(nav, "/events/"+fmt.Sprintf("2025-%02d-%02d/", 1+len(last)%12, 1+len(last)%28)), false}
		case seg[0] == "event":
			return page{"e:" + last, frame("Town", text(last, 5)...), append(nav, "/event/"+last+"/?ical=1", "/events/month/2025-0"+fmt.Sprint(1+len(last)%9)+"/"), false}
		case len(seg) == 3 && seg[1] == "month":
			y, m := atoi(last[:4]), atoi(strings.TrimLeft(last[5:], "0"))
			p := page{lines: frame("Town", "Events for "+months[(m+11)%12]+" "+fmt.Sprint(y), "Mon", "Tue", "Wed")}
			for d := 1; d <= 28; d++ {
				date := fmt.Sprintf("%04d-%02d-%02d", y, m, d)
				p.links = append(p.links, "/events/"+date+"/")
				p.lines = append(p.lines, fmt.Sprint(d))
				if e := on[date]; e != "" {
					p.links, p.lines = append(p.links, "/event/"+e+"/"), append(p.lines, title(e)+" tonight")
				}
			}
			p.links = append(p.links, fmt.Sprintf("/events/month/%04d-%02d/", y+m/12, m%12+1), fmt.Sprintf("/events/month/%04d-%02d/", y-(13-m)/12, (m+10)%12+1))
			p.links = append(p.links, path+"?ical=1", "/events/list/?tribe-bar-date="+last+"-01")
			return p
		case seg[0] == "events" && len(seg) == 2 && len(last) == 10:
			p := page{lines: frame("Town", "Events of "+last), links: append(nav, path+"?ical=1")}
			y, m, d := atoi(last[:4]), atoi(strings.TrimLeft(last[5:7], "0")), atoi(strings.TrimLeft(last[8:], "0"))
			p.links = append(p.links, fmt.Sprintf("/events/%04d-%02d-%02d/", y+(m*28+d)/336, (m-1+d/28)%12+1, d%28+1))
			if e := on[last]; e != "" {
				p.links, p.lines = append(p.links, "/event/"+e+"/"), append(p.lines, title(e)+" tonight")
			} else {
				p.lines = append(p.lines, "There are no events on this day")
			}
			return p
		}
		return page{lines: frame("Town", "There are no events on this day"), links: nav}
	}
	return s
}

// forum is a board after phpBB: a session id in each link, new on each page, print views, posts by
// number, sort keys, a search that links to searches. sid is its parameter.
func forum(seed int64, name, sid string) *site {
	r := rand.New(rand.NewSource(seed))
	const forums, topics = 8, 25 // topics of a forum
	s := &site{name: name, after: "phpBB", start: "/index.php", real: map[string]bool{"index": true}}
	size := func(f, t int) int { return 1 + (f*31+t*17)%3 }
	for f := 1; f <= forums; f++ {
		for k := 0; k < topics; k += 10 {
			s.real[fmt.Sprintf("f:%d:%d", f, k)] = true
		}
		for t := range topics {
			for k := range size(f, t) {
				s.real[fmt.Sprintf("t:%d:%d:%d", f, t, k*10)] = true
			}
		}
	}
	s.get = func(path string, q []kv) page {
		var links []string
		id := hex(r, 32)
		link := func(base string, q ...kv) {
			links = append(links, with(base, q, kv{sid, id}))
		}
		itoa := func(n int) string { return fmt.Sprint(n) }
		link("/index.php")
		link("/memberlist.php", kv{"mode", "team"})
		link("/search.php", kv{"search_id", "unanswered"})
		link("/ucp.php", kv{"mode", "login"})
		f, t, start := atoi(val(q, "f")), atoi(val(q, "t")), atoi(val(q, "start"))
		lines := frame("Board", "It is currently "+itoa(r.Intn(24))+":"+itoa(r.Intn(60)))
		switch path {
		case "/index.php":
			for f := 1; f <= forums; f++ {
				link("/viewforum.php", kv{"f", itoa(f)})
				lines = append(lines, text(fmt.Sprint("forum", f), 1)...)
			}
			return page{"index", lines, links, false}
		case "/viewforum.php":
			for t := start; t < min(topics, start+10); t++ {
				link("/viewtopic.php", kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)})
				link("/viewtopic.php", kv{"f", itoa(f)}, kv{"p", itoa(f*1000 + t*10)})
				lines = append(lines, text(fmt.Sprint("topic", seed, f, t), 1)...)
			}
			for k := 0; k < topics; k += 10 {
				if k == 0 {
					link(path, kv{"f", itoa(f)})
				} else {
					link(path, kv{"f", itoa(f)}, kv{"start", itoa(k)})
				}
			}
			for _, k := range strings.Fields("a r s t v") {
				link(path, kv{"f", itoa(f)}, kv{"sk", k}, kv{"sd", "d"})
				link(path, kv{"f", itoa(f)}, kv{"sk", k}, kv{"sd", "a"})
			}
			link("/posting.php", kv{"mode", "post"}, kv{"f", itoa(f)})
			link(path, kv{"f", itoa(f)}, kv{"mark", "topics"})
			if val(q, "sk") != "" {
				return page{"", lines, links, false}
			}
			return page{fmt.Sprintf("f:%d:%d", f, start), lines, links, false}
		case "/viewtopic.php":
			if p := val(q, "p"); p != "" {
				t = f*100 + atoi(p)/10%100
			}
			f, t = t/100, t%100
			for k := start; k < start+10; k++ {
				lines = append(lines, text(fmt.Sprint("msg", seed, f, t, k), 2)...)
				link("/viewtopic.php", kv{"f", itoa(f)}, kv{"p", itoa(f*1000 + t*10)})
				if k%3 == 0 {
					link("/memberlist.php", kv{"mode", "viewprofile"}, kv{"u", itoa(k)})
					link("/posting.php", kv{"mode", "quote"}, kv{"p", itoa(f*1000 + t*10 + k)})
				}
			}
			for k := range size(f, t) {
				if k == 0 {
					link(path, kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)})
				} else {
					link(path, kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)}, kv{"start", itoa(k * 10)})
				}
			}
			link(path, kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)}, kv{"view", "print"})
			link(path, kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)}, kv{"view", "next"})
			link(path, kv{"f", itoa(f)}, kv{"t", itoa(f*100 + t)}, kv{"view", "previous"})
			link("/viewforum.php", kv{"f", itoa(f)})
			return page{fmt.Sprintf("t:%d:%d:%d", f, t, start), lines, links, false}
		}
		return page{"", append(lines, "You are not authorised to read this"), links, false}
	}
	return s
}

// wiki is a wiki after MediaWiki: histories, old versions, differences, special pages of each page.
// Where it is silent it doesn't say noindex, as MediaWiki does for all but articles.
func wiki(seed int64, name string, silent bool) *site {
	r := rand.New(rand.NewSource(seed))
	const articles = 220
	s := &site{name: name, after: "MediaWiki", start: "/index.php?title=Main", real: map[string]bool{"Main": true}}
	names := make([]string, articles)
	out := map[string][]string{}
	for i := range names {
		w := strings.Fields(text(fmt.Sprint("wiki", seed, i), 1)[0])
		names[i] = strings.ToUpper(w[0][:1]) + w[0][1:] + "_" + w[1] + "_" + w[2]
		s.real[names[i]] = true
	}
	for i, n := range names {
		out[names[r.Intn(i+1)]] = append(out[names[r.Intn(i+1)]], n)
		_ = n
	}
	for i := 1; i < articles; i++ { // a random tree, so that all can be reached
		from := names[r.Intn(i)]
		out[from] = append(out[from], names[i])
	}
	get := func(_ string, q []kv) page {
		t := val(q, "title")
		var links []string
		add := func(q ...kv) { links = append(links, with("/index.php", q)) }
		base := strings.TrimPrefix(t, "Talk:")
		add(kv{"title", base})
		add(kv{"title", base}, kv{"action", "edit"})
		add(kv{"title", base}, kv{"action", "history"})
		add(kv{"title", "Talk:" + base})
		add(kv{"title", "Special:WhatLinksHere/" + base})
		add(kv{"title", "Special:RecentChangesLinked/" + base})
		add(kv{"title", base}, kv{"printable", "yes"})
		add(kv{"title", base}, kv{"action", "info"})
		add(kv{"title", "Special:RecentChanges"})
		lines := frame("Wiki", "Read", "Edit", "View history", "What links here")
		rev := func(k int) string { return fmt.Sprint(len(base)*10000 + int(base[0])*100 + k) }
		switch {
		case val(q, "action") == "history":
			for k := range 8 {
				lines = append(lines, "(cur | prev) 12:0"+fmt.Sprint(k)+" user "+vocabulary[(len(base)+k)%20]+" "+text(t+"summary"+fmt.Sprint(k%2), 1)[0])
				add(kv{"title", base}, kv{"oldid", rev(k)})
				add(kv{"title", base}, kv{"diff", rev(k)}, kv{"oldid", "prev"})
				add(kv{"title", base}, kv{"diff", "cur"}, kv{"oldid", rev(k)})
				for j := range k {
					add(kv{"title", base}, kv{"diff", rev(k)}, kv{"oldid", rev(j)})
				}
			}
			for _, l := range []string{"20", "50", "100", "500"} {
				add(kv{"title", base}, kv{"action", "history"}, kv{"limit", l})
			}
			return page{"", lines, links, false}
		case val(q, "action") == "edit":
			return page{"", append(lines, append(text(t, 8), "You have followed a link to a page")...), links, false}
		case val(q, "action") == "info":
			return page{"", append(lines, "Display title", "Page length in bytes 1234", "Number of watchers 3"), links, false}
		case val(q, "oldid") != "" || val(q, "diff") != "":
			return page{"", append(lines, append(text(t, 6), "Revision as of 12:01, 3 May 2019")...), links, false}
		case strings.HasPrefix(t, "Special:RecentChanges") && !strings.Contains(t, "/"):
			for _, d := range []string{"1", "3", "7", "30"} {
				for _, l := range []string{"50", "100", "500"} {
					add(kv{"title", t}, kv{"days", d}, kv{"limit", l})
				}
			}
			add(kv{"title", t}, kv{"hideminor", "1"})
			return page{"", append(lines, "Below are the last changes"), links, false}
		case strings.HasPrefix(t, "Special:"):
			add(kv{"title", t}, kv{"limit", "500"})
			add(kv{"title", t}, kv{"hidelinks", "1"})
			return page{"", append(lines, "The following pages link here"), links, false}
		case strings.HasPrefix(t, "Talk:"):
			return page{"", append(lines, "There is currently no text in this page"), links, false}
		}
		if t == "Main" {
			add(kv{"title", names[0]})
			return page{"Main", append(lines, text("main", 5)...), links, false}
		}
		for _, n := range out[t] {
			add(kv{"title", n})
		}
		if !s.real[t] {
			return page{"", append(lines, "There is currently no text in this page"), links, false}
		}
		return page{t, append(lines, text(t, 9)...), links, false}
	}
	s.get = func(path string, q []kv) page {
		p := get(path, q)
		p.noindex = !silent && (len(q) > 1 || strings.Contains(val(q, "title"), "Special:"))
		return p
	}
	return s
}

// relative is a hand-made site on a server that answers any path: links without a leading slash
// below pages that don't exist, and soft 404s.
func relative(seed int64) *site {
	s := &site{name: "relative", after: "hand-written links, a server that answers every path", start: "/", real: map[string]bool{"home": true}}
	const sections, pages = 6, 30
	for a := range sections {
		s.real[fmt.Sprint("s:", a)] = true
		for b := range pages {
			s.real[fmt.Sprint("s:", a, ":", b)] = true
		}
	}
	s.get = func(path string, q []kv) page {
		dir := path[:strings.LastIndexByte(path, '/')+1]
		seg := strings.Split(strings.Trim(path, "/"), "/")
		var links []string
		for a := range sections {
			links = append(links, dir+vocabulary[a]+"/") // meant to be /x/
		}
		links = append(links, dir+"imprint.html", dir+"help/index.html")
		last := seg[len(seg)-1]
		for a := range sections {
			if len(seg) >= 2 && seg[len(seg)-2] == vocabulary[a] && strings.HasSuffix(last, ".html") {
				for b := range pages {
					if last == slug(fmt.Sprint("rel", seed, a, b))+".html" {
						return page{fmt.Sprint("s:", a, ":", b), frame("Mill", text(last, 7)...), links, false}
					}
				}
			}
			if last == vocabulary[a] {
				p := page{id: fmt.Sprint("s:", a), lines: frame("Mill", text(fmt.Sprint("sec", a), 3)...), links: links}
				for b := range pages {
					n := slug(fmt.Sprint("rel", seed, a, b))
					p.links = append(p.links, dir+n+".html")
				}
				return p
			}
		}
		if path == "/" {
			return page{"home", frame("Mill", text("mill", 3)...), links, false}
		}
		return page{"", frame("Mill", "Welcome to the mill", "The page "+path+" has moved"), links, false}
	}
	return s
}

// listing is an Apache directory index with its sort links, and a symbolic link to its own parent.
func listing(seed int64) *site {
	s := &site{name: "listing", after: "Apache mod_autoindex, a symlink to its parent", start: "/pub/", real: map[string]bool{}}
	const dirs, files = 20, 12
	s.real["d:"] = true
	for d := range dirs {
		s.real["d:"+vocabulary[d]] = true
		for f := range files {
			s.real[fmt.Sprint("f:", vocabulary[d], ":", f)] = true
		}
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.Trim(path, "/"), "/")[1:]
		for len(seg) > 0 && seg[0] == "latest" {
			seg = seg[1:]
		}
		p := page{lines: []string{"Index of " + path, "Name", "Last modified", "Size", "Parent Directory"}}
		for _, c := range strings.Fields("N M S D") {
			for _, o := range strings.Fields("A D") {
				p.links = append(p.links, path+"?C="+c+";O="+o)
			}
		}
		switch {
		case len(seg) == 0:
			p.id = "d:"
			for d := range dirs {
				p.links, p.lines = append(p.links, path+vocabulary[d]+"/"), append(p.lines, vocabulary[d]+"/ 2019-03-04 10:11")
			}
			p.links, p.lines = append(p.links, path+"latest/"), append(p.lines, "latest/ 2019-03-04 10:11")
			return p
		case len(seg) == 1:
			p.id = "d:" + seg[0]
			for f := range files {
				n := slug(fmt.Sprint("file", seed, seg[0], f)) + ".txt"
				p.links, p.lines = append(p.links, path+n), append(p.lines, n+" 2019-03-04 10:11 4K")
			}
			return p
		}
		for f := range files {
			if seg[1] == slug(fmt.Sprint("file", seed, seg[0], f))+".txt" {
				return page{fmt.Sprint("f:", seg[0], ":", f), text(seg[1], 12), nil, false}
			}
		}
		return page{lines: []string{"Not Found"}}
	}
	return s
}

// blog is a blog after WordPress: replytocom, tags, authors, archives by date, feeds, AMP and print
// copies, share links, a search whose results link to searches, a list whose last page goes on.
func blog(seed int64) *site {
	s := &site{name: "blog", after: "WordPress", start: "/", real: map[string]bool{}}
	const posts = 200
	slugs := make([]string, posts)
	index := map[string]int{}
	for i := range posts {
		slugs[i] = slug(fmt.Sprint("wp", seed, i))
		index[slugs[i]] = i
		s.real["a:"+slugs[i]] = true
	}
	url := func(i int) string { return fmt.Sprintf("/%d/%02d/%s/", 2012+i/20, 1+i%12, slugs[i]) }
	tags := vocabulary[:25]
	list := func(base string, in []int, k int) page {
		k = max(1, k)
		last := (len(in) + 9) / 10
		shown := min(k, last)
		p := page{lines: frame("Blog"), links: []string{"/", "/feed/", fmt.Sprintf("%spage/%d/", base, k+1), "/?s=" + vocabulary[(k*3)%60]}}
		for _, i := range in[(shown-1)*10 : min(len(in), shown*10)] {
			p.links = append(p.links, url(i), fmt.Sprintf("%s?share=twitter", url(i)), fmt.Sprintf("%s?utm_source=list&utm_medium=%s", url(i), vocabulary[k%60]))
			p.lines = append(p.lines, title(slugs[i])+" was published", text(slugs[i], 1)[0])
		}
		for y := range 10 {
			p.links = append(p.links, fmt.Sprintf("/%d/", 2012+y))
		}
		return p
	}
	pick := func(f func(i int) bool) (in []int) {
		for i := range posts {
			if f(i) {
				in = append(in, i)
			}
		}
		if len(in) == 0 {
			in = []int{0}
		}
		return in
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.Trim(path, "/"), "/")
		k := 0
		if len(seg) >= 2 && seg[len(seg)-2] == "page" {
			k = atoi(seg[len(seg)-1])
			seg = seg[:len(seg)-2]
		}
		if w := val(q, "s"); w != "" {
			p := list("/", pick(func(i int) bool { return strings.Contains(slugs[i], w) }), 1)
			p.lines = append(p.lines, "Search results for "+w)
			for j := range 6 {
				p.links = append(p.links, "/?s="+w+"+"+vocabulary[(len(w)*7+j*5)%60])
			}
			return p
		}
		switch {
		case len(seg) == 0 || seg[0] == "":
			p := list("/", pick(func(int) bool { return true }), k)
			return p
		case seg[0] == "tag":
			return list(path, pick(func(i int) bool { return tags[i%25] == seg[1] || tags[(i*7+3)%25] == seg[1] }), k)
		case seg[0] == "author":
			return list(path, pick(func(i int) bool { return i%4 == len(seg[1])%4 }), k)
		case seg[0] == "feed":
			return page{lines: []string{"feed"}}
		case len(seg) <= 2:
			return list(path, pick(func(i int) bool { return 2012+i/20 == atoi(seg[0]) }), k)
		}
		i, ok := index[seg[2]]
		if !ok {
			return page{lines: frame("Blog", "Oops, that page can't be found")}
		}
		p := page{id: "a:" + slugs[i], lines: frame("Blog", append(text(slugs[i], 10), title(slugs[i]))...)}
		u := url(i)
		p.links = append(p.links, "/", "/tag/"+tags[i%25]+"/", "/tag/"+tags[(i*7+3)%25]+"/", "/author/"+vocabulary[i%4]+"/", u+"feed/", u+"amp/", u+"print/", url((i+1)%posts), url((i+posts-1)%posts))
		for c := range 6 {
			p.links = append(p.links, fmt.Sprintf("%s?replytocom=%d", u, i*100+c))
		}
		p.links = append(p.links, fmt.Sprintf("/%d/%02d/", 2012+i/20, 1+i%12), u+"?share=facebook", u+"?share=mail&nb=1")
		return p
	}
	return s
}

// forge is a code forge after Gitea and cgit: each file at each commit, blamed, raw, compared.
func forge(seed int64) *site {
	r := rand.New(rand.NewSource(seed))
	s := &site{name: "forge", after: "Gitea", start: "/lab/tool", real: map[string]bool{"repo": true}}
	const dirs, files, commits, issues = 8, 12, 120, 60
	shas := make([]string, commits)
	for i := range shas {
		shas[i] = hex(r, 40)
	}
	for d := range dirs {
		s.real["d:"+vocabulary[d]] = true
		for f := range files {
			s.real[fmt.Sprintf("f:%s/%s.go", vocabulary[d], vocabulary[20+f])] = true
		}
	}
	for i := range issues {
		s.real[fmt.Sprint("i:", i+1)] = true
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.Trim(path, "/"), "/")
		const repo = "/lab/tool"
		var links []string
		lines := frame("Forge", "Code", "Issues", "Pull requests", "Activity")
		links = append(links, repo, repo+"/issues", repo+"/commits/branch/main", repo+"/activity", repo+"/forks", repo+"/stars")
		if len(seg) < 3 {
			for d := range dirs {
				links = append(links, repo+"/src/branch/main/"+vocabulary[d])
			}
			return page{"repo", append(lines, text("readme", 6)...), links, false}
		}
		at, rest := "", ""
		if len(seg) > 5 {
			rest = strings.Join(seg[5:], "/")
		}
		if len(seg) > 4 {
			at = seg[3] + "/" + seg[4]
		}
		head := at == "branch/main"
		switch seg[2] {
		case "issues":
			if len(seg) == 3 {
				k := max(1, atoi(val(q, "page")))
				for i := (k - 1) * 20; i < min(issues, k*20); i++ {
					links = append(links, fmt.Sprintf("%s/issues/%d", repo, i+1))
					lines = append(lines, text(fmt.Sprint("issue", i), 1)[0])
				}
				for j := 1; j <= issues/20; j++ {
					links = append(links, with(repo+"/issues", q, kv{"page", fmt.Sprint(j)}))
				}
				for _, t := range strings.Fields("oldest recentupdate leastupdate mostcomment nearduedate") {
					links = append(links, with(repo+"/issues", q, kv{"sort", t}))
				}
				for l := range 12 {
					links = append(links, with(repo+"/issues", q, kv{"labels", fmt.Sprint(l)}))
				}
				links = append(links, with(repo+"/issues", q, kv{"state", "closed"}), with(repo+"/issues", q, kv{"type", "all"}))
				return page{"", lines, links, false}
			}
			return page{"i:" + seg[3], append(lines, text("issue"+fmt.Sprint(atoi(seg[3])-1), 6)...), append(links, repo+"/issues?labels="+fmt.Sprint(len(seg[3]))), false}
		case "src", "blame", "raw", "commits":
			if seg[2] == "commits" {
				k := max(1, atoi(val(q, "page")))
				for i := (k - 1) * 30; i < min(commits, k*30); i++ {
					links = append(links, repo+"/commit/"+shas[i], repo+"/src/commit/"+shas[i])
					lines = append(lines, text(fmt.Sprint("commit", i), 1)[0])
				}
				links = append(links, path+"?page="+fmt.Sprint(min(k+1, commits/30)))
				return page{"", lines, links, false}
			}
			if rest == "" || !strings.Contains(rest, "/") {
				if rest == "" {
					for d := range dirs {
						links = append(links, repo+"/src/"+at+"/"+vocabulary[d])
					}
					return page{"", append(lines, text("readme", 6)...), links, false}
				}
				for f := range files {
					links = append(links, fmt.Sprintf("%s/src/%s/%s/%s.go", repo, at, rest, vocabulary[20+f]))
					lines = append(lines, vocabulary[20+f]+".go "+text(fmt.Sprint("msg", rest, f), 1)[0])
				}
				links = append(links, repo+"/commits/"+at+"/"+rest)
				id := ""
				if head {
					id = "d:" + rest
				}
				return page{id, lines, links, false}
			}
			links = append(links, repo+"/blame/"+at+"/"+rest, repo+"/raw/"+at+"/"+rest, repo+"/commits/"+at+"/"+rest, repo+"/src/"+at+"/"+rest+"?display=source")
			h := 0
			for _, c := range rest {
				h = h*31 + int(c)
			}
			links = append(links, repo+"/src/commit/"+shas[(h&0xffff)%commits]+"/"+rest)
			id := ""
			if head && seg[2] != "commits" {
				id = "f:" + rest
			}
			if seg[2] == "raw" {
				links = nil
			}
			return page{id, append(lines, text(rest, 15)...), links, false}
		case "commit":
			i := 0
			for i < commits-1 && shas[i] != seg[3] {
				i++
			}
			links = append(links, repo+"/src/commit/"+seg[3], repo+"/commit/"+seg[3]+"?style=split&whitespace=", repo+"/commit/"+seg[3]+".diff")
			if i+1 < commits {
				links = append(links, repo+"/commit/"+shas[i+1])
			}
			return page{"", append(lines, text(vocabulary[i%dirs]+"/"+vocabulary[20+i%files]+".go", 4)...), links, false}
		}
		return page{"", append(lines, "Nothing here yet"), links, false}
	}
	return s
}

// layered is a shop whose filters are path segments, after Magento's layered navigation modules; its
// links come with and without a final slash and in two cases.
func layered(seed int64) *site {
	s := &site{name: "layered", after: "Magento, filters in the path; mixed case", start: "/", real: map[string]bool{"home": true}}
	const products, perPage = 200, 20
	groups := [][]string{strings.Fields("color-red color-blue color-teal color-pink"), strings.Fields("size-small size-large size-huge"), strings.Fields("brand-acme brand-zeta brand-orion brand-vega"), strings.Fields("sort-price sort-name sort-new")}
	for i := range products {
		s.real[fmt.Sprint("p:", slug(fmt.Sprint("mg", seed, i)))] = true
	}
	for k := 1; k <= products/perPage; k++ {
		s.real[fmt.Sprint("l:", k)] = true
	}
	s.get = func(path string, q []kv) page {
		seg := strings.Split(strings.ToLower(strings.Trim(path, "/")), "/")
		p := page{lines: frame("Store")}
		switch {
		case seg[0] == "":
			return page{"home", frame("Store", text("mghome", 3)...), []string{"/catalog", "/Catalog/"}, false}
		case seg[0] == "catalog":
			k := max(1, atoi(val(q, "p")))
			n := 0
			for i := range products {
				ok := true
				for g := range groups {
					for j, v := range groups[g] {
						for _, x := range seg[1:] {
							ok = ok && (x != v || g == 3 || (i*7+g*3)%len(groups[g]) == j)
						}
					}
				}
				if !ok {
					continue
				}
				if n++; n > (k-1)*perPage && n <= k*perPage {
					sl := slug(fmt.Sprint("mg", seed, i))
					p.lines = append(p.lines, title(sl)+" in store")
					u := "/item/" + sl
					if i%3 == 0 {
						u += "/"
					}
					p.links = append(p.links, u)
				}
			}
			base := "/" + strings.Join(seg, "/")
			for j := 1; j <= (n+perPage-1)/perPage; j++ {
				if j > 1 {
					p.links = append(p.links, base+"?p="+fmt.Sprint(j))
				}
			}
			for g := range groups {
				used := false
				for _, v := range groups[g] {
					for _, x := range seg {
						used = used || x == v
					}
				}
				if !used {
					for _, v := range groups[g] {
						p.links = append(p.links, base+"/"+v)
					}
				}
			}
			if len(seg) == 1 {
				p.id = fmt.Sprint("l:", k)
			}
			return p
		case seg[0] == "item":
			p = page{id: "p:" + seg[1], lines: frame("Store", text(seg[1], 6)...)}
			p.links = []string{"/Catalog", "/catalog/", "/item/" + seg[1] + "/", "/ITEM/" + seg[1], "/sendfriend/" + seg[1], "/review/list/" + seg[1], "/catalog/compare/" + seg[1]}
			return p
		case seg[0] == "sendfriend", seg[0] == "review":
			return page{"", frame("Store", "Please log in to do this"), []string{"/catalog"}, false}
		}
		return page{"", frame("Store", "404"), nil, false}
	}
	return s
}

// doku is a wiki after DokuWiki: do=, idx=, rev=, the media manager's trees.
func doku(seed int64) *site {
	s := &site{name: "doku", after: "DokuWiki", start: "/start", real: map[string]bool{"/start": true}}
	const spaces, pages = 8, 25
	for a := range spaces {
		for b := range pages {
			s.real[fmt.Sprintf("/%s:%s", vocabulary[a], slug(fmt.Sprint("dw", seed, a, b)))] = true
		}
	}
	s.get = func(path string, q []kv) page {
		var links []string
		lines := frame("Notes", "Trace", "Sitemap", "Media Manager", "Recent Changes")
		for _, d := range strings.Fields("edit revisions backlink recent login index media export_pdf") {
			links = append(links, path+"?do="+d)
		}
		links = append(links, "/start")
		switch do := val(q, "do"); {
		case val(q, "idx") != "" || do == "index":
			for a := range spaces {
				links = append(links, path+"?idx="+vocabulary[a])
				lines = append(lines, vocabulary[a])
				if val(q, "idx") == vocabulary[a] {
					for b := range pages {
						sl := slug(fmt.Sprint("dw", seed, a, b))
						links, lines = append(links, fmt.Sprintf("/%s:%s", vocabulary[a], sl)), append(lines, sl)
					}
				}
			}
			return page{"", lines, links, false}
		case do == "media" || val(q, "ns") != "" || val(q, "image") != "":
			for a := range spaces {
				for _, t := range strings.Fields("files upload search") {
					links = append(links, with(path, nil, kv{"do", "media"}, kv{"ns", vocabulary[a]}, kv{"tab_files", t}))
				}
				for _, t := range strings.Fields("view edit history") {
					links = append(links, with(path, nil, kv{"do", "media"}, kv{"ns", vocabulary[a]}, kv{"tab_details", t}, kv{"image", vocabulary[a] + ".png"}))
				}
			}
			return page{"", append(lines, "Media Files", "Thumbnails", "Sort by name"), links, false}
		case do == "revisions":
			for k := range 10 {
				links = append(links, path+"?rev="+fmt.Sprint(1500000000+k*86400+len(path)), path+"?do=diff&rev2[0]="+fmt.Sprint(1500000000+k*86400))
				lines = append(lines, "2017/07/1"+fmt.Sprint(k)+" 10:00 created")
			}
			return page{"", lines, links, false}
		case val(q, "rev") != "":
			return page{"", append(lines, text(path, 7)...), links, false}
		case do != "":
			return page{"", append(lines, "You are not allowed to perform this action"), links, false}
		}
		if !s.real[path] {
			return page{"", append(lines, "This topic does not exist yet"), links, false}
		}
		links = append(links, path+"?idx="+vocabulary[len(path)%spaces])
		for k := range 3 {
			links = append(links, fmt.Sprintf("/%s:%s", vocabulary[(len(path)+k)%spaces], slug(fmt.Sprint("dw", seed, (len(path)+k)%spaces, (len(path)*3+k)%pages))))
		}
		if path == "/start" {
			for a := range spaces {
				for b := range pages {
					if b%5 == 0 {
						links = append(links, fmt.Sprintf("/%s:%s", vocabulary[a], slug(fmt.Sprint("dw", seed, a, b))))
					}
				}
			}
		}
		for a := range spaces {
			for b := range pages {
				if path == fmt.Sprintf("/%s:%s", vocabulary[a], slug(fmt.Sprint("dw", seed, a, b))) && b+1 < pages {
					links = append(links, fmt.Sprintf("/%s:%s", vocabulary[a], slug(fmt.Sprint("dw", seed, a, b+1))))
				}
			}
		}
		return page{path, append(lines, text(path, 8)...), links, false}
	}
	return s
}

// numbers has pages that differ in numbers alone, beside a calendar without end.
func numbers(int64) *site {
	s := &site{name: "numbers, calendar", after: "measuring stations beside a calendar", start: "/", real: map[string]bool{}}
	const n = 150
	for i := range n {
		s.real[fmt.Sprint(i)] = true
	}
	s.get = func(path string, q []kv) page {
		nav := []string{"/", "/list?page=0", "/cal/2025/06/"}
		seg := strings.Split(strings.Trim(path, "/"), "/")
		switch {
		case path == "/station":
			i := atoi(val(q, "id"))
			return page{fmt.Sprint(i), frame("Stations", fmt.Sprintf("Station %d", i), fmt.Sprintf("Temperature %d.%d", i%30, i%10)), nav, false}
		case path == "/list":
			p := page{lines: frame("Stations", "List"), links: nav}
			k := atoi(val(q, "page"))
			for i := k * 10; i < min(n, k*10+10); i++ {
				p.links = append(p.links, fmt.Sprintf("/station?id=%d", i))
			}
			if k*10+10 < n {
				p.links = append(p.links, fmt.Sprintf("/list?page=%d", k+1))
			}
			return p
		case seg[0] == "cal" && len(seg) == 3:
			y, m := atoi(seg[1]), atoi(strings.TrimLeft(seg[2], "0"))
			p := page{lines: frame("Stations", fmt.Sprintf("Month %d/%d", m, y)), links: nav}
			for d := 1; d <= 28; d++ {
				p.links = append(p.links, fmt.Sprintf("%s%02d/", path, d))
			}
			p.links = append(p.links, fmt.Sprintf("/cal/%d/%02d/", y+m/12, m%12+1), fmt.Sprintf("/cal/%d/%02d/", y-(13-m)/12, (m+10)%12+1))
			return p
		case seg[0] == "cal":
			return page{lines: frame("Stations", "No maintenance on this day"), links: nav}
		}
		return page{lines: frame("Stations", "Welcome"), links: nav}
	}
	return s
}

// byID has all its content behind ?id=, and lists of it behind ?page=.
func byID(int64) *site {
	s := &site{name: "id", after: "classic ASP: all behind ?id=", start: "/list.asp", harmless: true, real: map[string]bool{}}
	const n = 400
	for i := range n {
		s.real[fmt.Sprint("i:", i)] = true
	}
	for k := 1; k <= n/20; k++ {
		s.real[fmt.Sprint("l:", k)] = true
	}
	s.get = func(path string, q []kv) page {
		if path == "/show.asp" {
			i := atoi(val(q, "id"))
			return page{fmt.Sprint("i:", i), frame("Register", text(fmt.Sprint("asp", i), 4)...), []string{"/list.asp"}, false}
		}
		k := max(1, atoi(val(q, "page")))
		p := page{id: fmt.Sprint("l:", k), lines: frame("Register")}
		for i := (k - 1) * 20; i < k*20; i++ {
			p.links, p.lines = append(p.links, fmt.Sprintf("/show.asp?id=%d", i)), append(p.lines, text(fmt.Sprint("asp", i), 1)...)
		}
		if k < n/20 {
			p.links = append(p.links, fmt.Sprintf("/list.asp?page=%d", k+1))
		}
		return p
	}
	return s
}

// daily is an archive by day, with real content on each, most of it on one line.
func daily(int64) *site {
	s := &site{name: "daily", after: "an archive by /YYYY/MM/DD/", start: "/", harmless: true, real: map[string]bool{"/": true}}
	for y := 2021; y <= 2022; y++ {
		s.real[fmt.Sprintf("/%d/", y)] = true
		for m := 1; m <= 12; m++ {
			s.real[fmt.Sprintf("/%d/%02d/", y, m)] = true
			for d := 1; d <= 28; d++ {
				s.real[fmt.Sprintf("/%d/%02d/%02d/", y, m, d)] = true
			}
		}
	}
	s.get = func(path string, _ []kv) page {
		p := page{lines: frame("Diary", "Calendar", "Mon", "Tue")}
		if !s.real[path] {
			return p
		}
		p.id = path
		n := strings.Count(path, "/")
		for i := 1; i <= 2022; i++ {
			u := fmt.Sprintf("%s%02d/", path, i)
			if n < 4 && s.real[u] {
				p.links, p.lines = append(p.links, u), append(p.lines, fmt.Sprint(i))
			}
		}
		if n == 4 {
			p.lines = append(p.lines, text(path, 1)...)
		}
		return p
	}
	return s
}

// template has pages that share sixty lines, and differ in a line, some in a number only.
func template(int64) *site {
	s := &site{name: "template", after: "a parts catalogue: 60 shared lines, 1 own; a third differ in numbers only", start: "/", harmless: true, real: map[string]bool{}}
	const n = 450
	for i := range n + 1 {
		s.real[fmt.Sprint(i)] = true
	}
	shared := text("template", 60)
	s.get = func(path string, _ []kv) page {
		i := atoi(strings.TrimPrefix(path, "/part/"))
		p := page{id: fmt.Sprint(i), lines: append([]string{"Parts"}, shared...)}
		if i%3 == 0 {
			p.lines = append(p.lines, fmt.Sprintf("Part %d weighs %d g", i, i*37%1000))
		} else {
			p.lines = append(p.lines, text(fmt.Sprint("part", i), 1)...)
		}
		for k := i*3 + 1; k <= min(n, i*3+3); k++ {
			p.links = append(p.links, fmt.Sprintf("/part/%d", k))
		}
		return p
	}
	return s
}

// versions is documentation with six versions, of which most pages are the same text.
func versions(int64) *site {
	s := &site{name: "versions", after: "Sphinx on Read the Docs: versions whose pages are mostly alike", start: "/en/latest/index.html", harmless: true, real: map[string]bool{}}
	vs := strings.Fields("latest stable v3.2 v3.1 v3.0 v2.9")
	const n = 70
	name := func(i int) string {
		if i == 0 {
			return "index.html"
		}
		return slug(fmt.Sprint("doc", i)) + ".html"
	}
	for _, v := range vs {
		for i := range n {
			s.real["/en/"+v+"/"+name(i)] = true
		}
	}
	s.get = func(path string, _ []kv) page {
		if !s.real[path] {
			return page{lines: []string{"Not found"}}
		}
		v, f := strings.Split(path, "/")[2], strings.Split(path, "/")[3]
		p := page{id: path, lines: frame("Docs", text(f, 10)...)}
		for i := range n {
			if name(i) == f && i%10 == len(v)%10 {
				p.lines = append(p.lines, text(path, 2)...)
			}
			p.links = append(p.links, "/en/"+v+"/"+name(i))
		}
		for _, o := range vs {
			p.links = append(p.links, "/en/"+o+"/"+f)
		}
		return p
	}
	return s
}
