package traps

import (
	"fmt"
	"strconv"
	"strings"
)

// fakes are sites after the URLs of further software. But for nuke they were written
// before the rule was tried on them.
func fakes() []*site {
	return []*site{
		joomla(), smf(), drupal(), bugzilla(), piwigo(), moin(), cgit(), myCalendar(), nuke(), hugo(), sphinx(),
		dspace(), redmine(), gitlab(), discourse(),
	}
}

// A draft is the answer that a fake site is writing.
type draft struct{ page }

func newDraft(name string) *draft { return &draft{page{lines: frame(name)}} }

// link adds a link.
func (d *draft) link(format string, args ...any) {
	d.links = append(d.links, fmt.Sprintf(format, args...))
}

// say adds n lines that belong to key.
func (d *draft) say(key string, n int) { d.lines = append(d.lines, text(key, n)...) }

// is says that the page has content of its own.
func (d *draft) is(id string) { d.id = id }

// number returns the number with which s begins, such as 12 of "12:a-title".
func number(s string) int {
	end := strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(s)
	}
	n, _ := strconv.Atoi(s[:end])
	return n
}

// realOnes returns ids of a kind from 0 on.
func realOnes(counts map[string]int) map[string]bool {
	own := map[string]bool{}
	for kind, n := range counts {
		for i := range n {
			own[fmt.Sprint(kind, i)] = true
		}
	}
	return own
}

// joomla has all its pages behind index.php: articles, their print and mail views, feeds, logins
// that return to each page.
func joomla() *site {
	const categories, articles, perPage = 8, 200, 10
	get := func(_ string, q []kv) page {
		d := newDraft("Club")
		here := fmt.Sprint(len(q)*1000 + len(val(q, "id"))*10 + number(val(q, "id")))
		d.link("/index.php")
		for c := range categories {
			d.link("/index.php?option=com_content&view=category&id=%d&Itemid=%d", c, 100+c)
		}
		d.link("/index.php?option=com_users&view=login&return=aHR0cHM6%sLy9jbHVi", here)
		d.link("/index.php?option=com_search&searchword=%s&ordering=newest", vocabulary[len(here)])
		switch id := number(val(q, "id")); {
		case val(q, "option") == "":
			d.is("home0")
			d.say("joomla home", 4)
		case val(q, "format") == "feed":
			d.links = nil
			d.lines = []string{"feed"}
		case val(q, "view") == "category":
			start := atoi(val(q, "limitstart"))
			for i := start; i < start+perPage && i < articles/categories; i++ {
				n := id + i*categories
				d.link("/index.php?option=com_content&view=article&id=%d:%s&catid=%d&Itemid=%d", n, slug(fmt.Sprint("joomla", n)), id, 100+id)
				d.say(fmt.Sprint("joomla title", n), 1)
			}
			for s := 0; s < articles/categories; s += perPage {
				d.link("/index.php?option=com_content&view=category&id=%d&Itemid=%d&limitstart=%d", id, 100+id, s)
			}
			for _, order := range []string{"author", "hits", "date", "title"} {
				d.link("/index.php?option=com_content&view=category&id=%d&Itemid=%d&filter_order=%s&filter_order_Dir=asc", id, 100+id, order)
				d.link("/index.php?option=com_content&view=category&id=%d&Itemid=%d&filter_order=%s&filter_order_Dir=desc", id, 100+id, order)
			}
			d.link("/index.php?option=com_content&view=category&id=%d&format=feed&type=rss", id)
			d.link("/index.php?option=com_content&view=category&id=%d&format=feed&type=atom", id)
		case val(q, "view") == "article":
			d.is(fmt.Sprint("article", id))
			d.say(fmt.Sprint("joomla article", id), 8)
			d.link("/index.php?option=com_content&view=article&id=%d:%s&catid=%d&Itemid=%d&tmpl=component&print=1&layout=default", id, slug(fmt.Sprint("joomla", id)), id%categories, 100+id%categories)
			d.link("/index.php?option=com_mailto&tmpl=component&link=%x", id*7919+12345678)
			d.link("/index.php?option=com_content&view=article&id=%d:%s&catid=%d&Itemid=%d", (id+8)%articles, slug(fmt.Sprint("joomla", (id+8)%articles)), id%categories, 100+id%categories)
		case val(q, "option") == "com_search":
			d.lines = append(d.lines, "Search results", "Total: "+here)
			for i := range 6 {
				d.link("/index.php?option=com_search&searchword=%s&ordering=newest&limitstart=%d", val(q, "searchword"), i*20)
			}
		default:
			d.lines = append(d.lines, "User name", "Password", "Remember me")
		}
		return d.page
	}
	return &site{name: "joomla", after: "Joomla", start: "/index.php", real: realOnes(map[string]int{"home": 1, "article": articles}), get: get}
}

// smf is a forum whose parameters are parted by semicolons, with a session id, sort orders, a link
// to each post, print pages and profiles that need a login.
func smf() *site {
	const boards, topics, posts = 6, 25, 3
	session := 0
	get := func(_ string, q []kv) page {
		session++
		sid := fmt.Sprintf("PHPSESSID=%032x;", session*7919)
		d := newDraft("Workshop")
		add := func(format string, args ...any) {
			d.link("/index.php?"+sid+format, args...)
		}
		add("action=help")
		add("action=search")
		add("action=login")
		add("action=register")
		topicOf := func(v string) int { return number(v) }
		board, offset, _ := strings.Cut(val(q, "board"), ".")
		switch action := val(q, "action"); {
		case action != "":
			d.lines = append(d.lines, "Only registered members are allowed to access this section")
		case val(q, "board") != "":
			b, start := atoi(board), atoi(offset)
			for i := start; i < min(topics, start+10); i++ {
				t := b*100 + i
				add("topic=%d.0", t)
				add("topic=%d.msg%d;topicseen#new", t, t*10+posts)
				d.say(fmt.Sprint("smf topic", t), 1)
				add("action=profile;u=%d", t%17)
			}
			for s := 0; s < topics; s += 10 {
				add("board=%d.%d", b, s)
			}
			for _, key := range []string{"subject", "starter", "replies", "views", "last_post"} {
				add("board=%d.0;sort=%s", b, key)
				add("board=%d.0;sort=%s;desc", b, key)
			}
			add("action=markasread;sa=board;board=%d.0;%x=%x", b, session, session*31)
		case val(q, "topic") != "":
			t := topicOf(val(q, "topic"))
			d.is(fmt.Sprint("topic", (t/100-1)*topics+t%100))
			for p := range posts {
				d.say(fmt.Sprint("smf post", t, p), 2)
				add("topic=%d.msg%d#msg%d", t, t*10+p, t*10+p)
				add("action=profile;u=%d", (t+p)%17)
				add("action=post;quote=%d;topic=%d.0", t*10+p, t)
			}
			add("action=printpage;topic=%d.0", t)
			add("topic=%d.0;prev_next=next#new", t)
			add("topic=%d.0;prev_next=prev#new", t)
			add("board=%d.0", t/100)
		default:
			d.is("index0")
			for b := 1; b <= boards; b++ {
				add("board=%d.0", b)
				d.say(fmt.Sprint("smf board", b), 1)
			}
		}
		return d.page
	}
	return &site{name: "smf", after: "Simple Machines Forum", start: "/index.php", real: realOnes(map[string]int{"index": 1, "topic": boards * topics}), get: func(path string, q []kv) page {
		p := get(path, q)
		for i, l := range p.links { // a crawl leaves fragments out
			p.links[i], _, _ = strings.Cut(l, "#")
		}
		return p
	}}
}

// drupal is a library's catalogue: facets f[0], f[1], ... in the order in which they were chosen,
// a pager, and forms on each page.
func drupal() *site {
	const nodes, perPage = 240, 15
	facets := []string{"type:book", "type:map", "type:film", "language:en", "language:fr", "language:de", "decade:1990", "decade:2000", "decade:2010", "place:north", "place:south"}
	match := func(n int, facet string) bool {
		kind, value, _ := strings.Cut(facet, ":")
		return (n*7+len(kind)*3)%3 == len(value)%3
	}
	get := func(path string, q []kv) page {
		d := newDraft("Library")
		d.link("/catalogue")
		d.link("/user/login?destination=%s", strings.TrimPrefix(path, "/"))
		if id, isNode := strings.CutPrefix(path, "/node/"); isNode && number(id) < nodes {
			n := number(id)
			if id != fmt.Sprint(n) {
				d.lines = append(d.lines, "Access denied")
				return d.page
			}
			d.is(fmt.Sprint("node", n))
			d.say(fmt.Sprint("drupal", n), 6)
			d.link("/node/%d/revisions", n)
			d.link("/comment/reply/node/%d/field_comments", n)
			d.link("/print/view/pdf/node/%d", n)
			for _, f := range facets {
				if match(n, f) {
					d.link("/catalogue?f[0]=%s", f)
				}
			}
			return d.page
		}
		if path != "/catalogue" {
			if path == "/" {
				d.is("home0")
				d.say("drupal home", 3)
				return d.page
			}
			d.lines = append(d.lines, "Access denied")
			return d.page
		}
		var chosen []string
		for _, p := range q {
			if strings.HasPrefix(p.k, "f[") {
				chosen = append(chosen, p.v)
			}
		}
		var found []int
		for n := range nodes {
			fits := true
			for _, f := range chosen {
				fits = fits && match(n, f)
			}
			if fits {
				found = append(found, n)
			}
		}
		query := ""
		for i, f := range chosen {
			query += fmt.Sprintf("f[%d]=%s&", i, f)
		}
		start := min(len(found), atoi(val(q, "page"))*perPage)
		for _, n := range found[start:min(len(found), start+perPage)] {
			d.link("/node/%d", n)
			d.say(fmt.Sprint("drupal title", n), 1)
		}
		for _, f := range facets {
			d.link("/catalogue?%sf[%d]=%s", query, len(chosen), f)
		}
		for _, by := range []string{"created", "title", "relevance"} {
			d.link("/catalogue?%ssort_by=%s&sort_order=ASC", query, by)
			d.link("/catalogue?%ssort_by=%s&sort_order=DESC", query, by)
		}
		for k := range (len(found) + perPage - 1) / perPage {
			d.link("/catalogue?%spage=%d", query, k)
		}
		return d.page
	}
	return &site{name: "drupal", after: "Drupal with Search API facets", start: "/", real: realOnes(map[string]int{"home": 1, "node": nodes}), get: get}
}

// bugzilla has lists of bugs in each order, and of each bug its history and its forms.
func bugzilla() *site {
	const bugs, products = 220, 6
	get := func(path string, q []kv) page {
		d := newDraft("Bugs")
		d.link("/describecomponents.cgi")
		d.link("/query.cgi")
		d.link("/enter_bug.cgi")
		d.link("/report.cgi")
		id := atoi(val(q, "id"))
		switch path {
		case "/":
			d.is("home0")
			d.say("bugzilla", 2)
			for p := range products {
				d.link("/buglist.cgi?product=%s&resolution=---", vocabulary[p])
			}
		case "/buglist.cgi":
			if val(q, "ctype") != "" {
				return page{lines: []string{"bug_id,summary"}}
			}
			for n := range bugs {
				isOpen := n%3 != 0 || val(q, "resolution") == ""
				if val(q, "product") == vocabulary[n%products] && isOpen {
					d.link("/show_bug.cgi?id=%d", n)
					d.say(fmt.Sprint("bug title", n), 1)
				}
			}
			list := "/buglist.cgi?product=" + val(q, "product")
			d.link("%s", list)
			for _, o := range []string{"bug_id", "priority", "assigned_to", "bug_status", "changeddate"} {
				d.link("%s&order=%s&query_based_on=", list, o)
				d.link("%s&order=%s%%20DESC&query_based_on=", list, o)
				d.link("%s&resolution=---&order=%s&columnlist=summary", list, o)
			}
			d.link("%s&ctype=atom&title=Bugs", list)
			d.link("%s&ctype=csv&human=1", list)
		case "/show_bug.cgi":
			if val(q, "ctype") != "" {
				return page{lines: append([]string{"xml"}, text(fmt.Sprint("bug", id), 5)...)}
			}
			d.is(fmt.Sprint("bug", id))
			d.say(fmt.Sprint("bug", id), 6)
			d.say(fmt.Sprint("bug title", id), 1)
			d.link("/show_activity.cgi?id=%d", id)
			d.link("/show_bug.cgi?ctype=xml&id=%d", id)
			d.link("/show_bug.cgi?format=multiple&id=%d", id)
			d.link("/showdependencytree.cgi?id=%d&hide_resolved=1", id)
			d.link("/votes.cgi?action=show_user&bug_id=%d", id)
			d.link("/attachment.cgi?bugid=%d&action=enter", id)
			d.link("/enter_bug.cgi?cloned_bug_id=%d", id)
			d.link("/show_bug.cgi?id=%d", (id*7+3)%bugs)
			d.link("/buglist.cgi?product=%s&resolution=---", vocabulary[id%products])
		case "/show_activity.cgi":
			d.lines = append(d.lines, "Who", "When", "What", "Removed", "Added")
			d.link("/show_bug.cgi?id=%d", id)
		case "/showdependencytree.cgi":
			d.lines = append(d.lines, "Dependency tree", "Maximum depth")
			for depth := 1; depth < 6; depth++ {
				d.link("/showdependencytree.cgi?id=%d&hide_resolved=%d&maxdepth=%d", id, depth%2, depth)
			}
		default:
			d.lines = append(d.lines, "Log in", "Password")
			d.noindex = true
		}
		if val(q, "format") == "multiple" {
			d.id = ""
		}
		return d.page
	}
	return &site{name: "bugzilla", after: "Bugzilla", start: "/", real: realOnes(map[string]int{"home": 1, "bug": bugs}), get: get}
}

// piwigo has its paths in the query: pictures in each album, by tag and by date, in sizes and shows.
func piwigo() *site {
	const albums, pictures, perPage = 10, 200, 15
	get := func(path string, q []kv) page {
		d := newDraft("Pictures")
		d.link("/index.php")
		rest := ""
		if len(q) > 0 {
			rest = strings.Trim(q[0].k, "/")
		}
		parts := strings.Split(rest, "/")
		list := func(section string, in func(n int) bool, start int) {
			shown := 0
			for n := range pictures {
				if !in(n) {
					continue
				}
				shown++
				if shown <= start || shown > start+perPage {
					continue
				}
				d.link("/picture.php?/%d/%s", n, section)
				d.say(fmt.Sprint("piwigo title", n), 1)
			}
			for s := perPage; s < shown; s += perPage {
				d.link("/index.php?/%s/start-%d", section, s)
			}
			for order := range 8 {
				d.link("/index.php?/%s&image_order=%d", section, order)
			}
			for _, size := range []string{"square", "thumb", "2small", "medium"} {
				d.link("/index.php?/%s&display=%s", section, size)
			}
			for month := 1; month <= 12; month++ {
				d.link("/index.php?/%s/created-monthly-calendar-%d-%d", section, 2010+month%5, month)
			}
			d.link("/index.php?/%s/flat", section)
		}
		start := 0
		if s, ok := strings.CutPrefix(parts[len(parts)-1], "start-"); ok {
			start = atoi(s)
		}
		switch {
		case rest == "":
			d.is("home0")
			d.say("piwigo", 3)
			for a := range albums {
				d.link("/index.php?/category/%d", a)
			}
			for t := range 12 {
				d.link("/index.php?/tags/%d-%s", t, vocabulary[t])
			}
			d.link("/index.php?/recent_pics")
			d.link("/index.php?/most_visited")
		case path == "/index.php" && parts[0] == "category" && len(parts) > 1:
			a := number(parts[1])
			list(fmt.Sprint("category/", a), func(n int) bool { return n%albums == a }, start)
		case path == "/index.php" && parts[0] == "tags" && len(parts) > 1:
			t := number(parts[1])
			list("tags/"+parts[1], func(n int) bool { return n%12 == t }, start)
		case path == "/index.php":
			list(parts[0], func(n int) bool { return n%9 == 0 }, start)
		case path == "/picture.php":
			n := number(parts[0])
			if len(q) == 1 {
				d.is(fmt.Sprint("picture", n))
			}
			d.say(fmt.Sprint("piwigo picture", n), 4)
			section := strings.Join(parts[1:], "/")
			d.link("/picture.php?/%d/%s&metadata", n, section)
			d.link("/picture.php?/%d/%s&slideshow=", n, section)
			d.link("/picture.php?/%d/%s&action=add_to_favorites", n, section)
			d.link("/action.php?id=%d&part=e&download", n)
			d.link("/picture.php?/%d/category/%d", (n+albums)%pictures, n%albums)
			d.link("/index.php?/tags/%d-%s", n%12, vocabulary[n%12])
		default:
			d.lines = []string{"Not found"}
		}
		return d.page
	}
	return &site{name: "piwigo", after: "Piwigo", start: "/index.php", real: realOnes(map[string]int{"home": 1, "picture": pictures}), get: get}
}

// moin is a wiki with the difference of every two versions, and searches for all that links here.
func moin() *site {
	const pages, versions = 180, 9
	name := func(n int) string { return strings.ReplaceAll(slug(fmt.Sprint("moin", n)), "-", "") + "Page" }
	index := map[string]int{}
	for n := range pages {
		index[name(n)] = n
	}
	get := func(path string, q []kv) page {
		d := newDraft("Notes")
		at := strings.TrimPrefix(path, "/")
		n, isPage := index[at]
		for _, a := range []string{"info", "edit", "raw", "print", "AttachFile", "LikePages", "LocalSiteMap", "RenamePage", "DeletePage", "refresh"} {
			d.link("/%s?action=%s", at, a)
		}
		d.link("/%s?action=fullsearch&context=180&value=linkto%%3A%%22%s%%22", at, at)
		d.link("/RecentChanges")
		d.link("/FindPage")
		switch action := val(q, "action"); {
		case action == "info":
			for v := 1; v <= versions; v++ {
				d.link("/%s?action=recall&rev=%d", at, v)
				d.link("/%s?action=raw&rev=%d", at, v)
				d.lines = append(d.lines, fmt.Sprintf("%d 2009-01-%02d 10:00 user view raw print", v, v))
				for w := 1; w < v; w++ {
					d.link("/%s?action=diff&rev1=%d&rev2=%d", at, w, v)
				}
			}
			for _, k := range []int{20, 50, 100, 200} {
				d.link("/%s?action=info&max_count=%d", at, k)
			}
		case action == "diff", action == "recall":
			d.say(fmt.Sprint("moin", at), 4)
			d.lines = append(d.lines, "Deletions are marked like this")
			v := max(1, atoi(val(q, "rev2"))+atoi(val(q, "rev"))-1)
			d.link("/%s?action=diff&rev1=%d&rev2=%d", at, v, v+1)
		case action == "raw", action == "print":
			d.links = nil
			d.say(fmt.Sprint("moin", at), 5)
		case action == "fullsearch":
			d.lines = append(d.lines, "Results 1 - 10 of about 12 results")
			for i := range 8 {
				other := name((n*3 + i*11) % pages)
				d.link("/%s?highlight=%s", other, vocabulary[i])
				d.link("/%s", other)
			}
		case action != "":
			d.lines = append(d.lines, "You are not allowed to do "+action+" on this page")
		case at == "RecentChanges":
			for i := range 30 {
				d.link("/%s", name(i*5%pages))
				d.link("/%s?action=diff", name(i*5%pages))
			}
			for _, days := range []int{1, 2, 7, 14, 30, 60, 90} {
				d.link("/RecentChanges?max_days=%d", days)
			}
		case isPage:
			if val(q, "highlight") == "" {
				d.is(fmt.Sprint("page", n))
			}
			d.say(fmt.Sprint("moin", at), 7)
			for i := 1; i <= 3; i++ {
				if child := n*3 + i; child < pages {
					d.link("/%s", name(child))
				}
			}
		default:
			d.lines = append(d.lines, "This page does not exist yet. You can create a new empty page")
		}
		return d.page
	}
	return &site{name: "moin", after: "MoinMoin", start: "/" + name(0), real: realOnes(map[string]int{"page": pages}), get: get}
}

// cgit has each file of each commit, and the difference of every two.
func cgit() *site {
	const commits, files, perPage = 100, 90, 50
	sha := func(n int) string { return fmt.Sprintf("%040x", (n+1)*104729*15485863) }
	of := map[string]int{}
	for n := range commits {
		of[sha(n)] = n
	}
	file := func(f int) string { return fmt.Sprintf("%s/%s.c", vocabulary[f%6], vocabulary[6+f/6]) }
	index := map[string]int{}
	for f := range files {
		index[file(f)] = f
	}
	get := func(path string, q []kv) page {
		d := newDraft("git")
		rest := strings.TrimPrefix(path, "/tool/")
		part, at, _ := strings.Cut(rest, "/")
		for _, p := range []string{"", "refs/", "log/", "tree/", "commit/", "diff/", "stats/"} {
			d.link("/tool/%s", p)
		}
		id := val(q, "id")
		at = strings.TrimSuffix(at, "/")
		suffix := ""
		if id != "" {
			suffix = "?id=" + id
			d.link("/tool/tree/%s", suffix)
		}
		switch part {
		case "", "refs":
			for _, branch := range []string{"main", "next", "stable"} {
				d.link("/tool/log/?h=%s", branch)
				d.link("/tool/tree/?h=%s", branch)
			}
			d.link("/tool/snapshot/tool-1.0.tar.gz")
		case "log":
			for n := atoi(val(q, "ofs")); n < min(commits, atoi(val(q, "ofs"))+perPage); n++ {
				d.link("/tool/commit/?id=%s", sha(n))
				if at != "" {
					d.link("/tool/commit/%s?id=%s", at, sha(n))
				}
				d.say(fmt.Sprint("cgit message", n), 1)
			}
			d.link("/tool/log/%s?ofs=%d", at, perPage)
			d.link("/tool/log/%s?showmsg=1", at)
			d.link("/tool/log/%s?qt=author&q=%s", at, vocabulary[len(at)%9])
		case "commit":
			n := of[id]
			if at == "" && id != "" {
				d.is(fmt.Sprint("commit", n))
			}
			d.say(fmt.Sprint("cgit message", n), 1)
			d.say(fmt.Sprint("cgit commit", n), 4)
			if n+1 < commits {
				d.link("/tool/commit/?id=%s", sha(n+1))
				d.link("/tool/diff/?id=%s&id2=%s", sha(n), sha(n+1))
			}
			d.link("/tool/patch/?id=%s", sha(n))
			d.link("/tool/snapshot/tool-%s.tar.gz", sha(n))
			for i := range 4 {
				f := file((n*5 + i) % files)
				d.link("/tool/diff/%s?id=%s", f, sha(n))
				d.link("/tool/tree/%s?id=%s", f, sha(n))
			}
			for context := 1; context < 12; context++ {
				d.link("/tool/commit/?id=%s&context=%d", sha(n), context)
				d.link("/tool/commit/?id=%s&context=%d&ignorews=1", sha(n), context)
			}
		case "tree", "blame", "plain":
			f, isFile := index[at]
			switch {
			case isFile:
				if part == "tree" && id == "" && val(q, "h") == "" {
					d.is(fmt.Sprint("file", f))
				}
				d.say(fmt.Sprint("cgit file", f), 9)
				d.link("/tool/plain/%s%s", at, suffix)
				d.link("/tool/blame/%s%s", at, suffix)
				d.link("/tool/log/%s%s", at, suffix)
			default:
				for f := range files {
					if strings.HasPrefix(file(f), at) {
						d.link("/tool/tree/%s%s", file(f), suffix)
						d.link("/tool/log/%s%s", file(f), suffix)
						d.link("/tool/stats/%s%s", file(f), suffix)
						d.lines = append(d.lines, "-rw-r--r-- "+file(f))
					}
				}
			}
			if part == "plain" {
				d.links = nil
			}
		case "diff", "patch":
			n := of[id]
			d.say(fmt.Sprint("cgit commit", n), 3)
			for context := 1; context < 6; context++ {
				d.link("%s?id=%s&context=%d", path, id, context)
			}
		default:
			d.lines = append(d.lines, "Commits per author per week")
			for _, period := range []string{"w", "m", "q", "y"} {
				d.link("%s?period=%s&ofs=10", path, period)
			}
		}
		return d.page
	}
	return &site{name: "cgit", after: "cgit", start: "/tool/", real: realOnes(map[string]int{"commit": commits, "file": files}), get: get}
}

// myCalendar is a blog beside a calendar whose day, week and month views have no end.
func myCalendar() *site {
	const posts, events, perPage = 140, 12, 10
	get := func(path string, q []kv) page {
		d := newDraft("Parish")
		d.link("/")
		d.link("/calendar/")
		d.link("/blog/")
		switch name := strings.Trim(path, "/"); {
		case name == "":
			d.is("home0")
			d.say("parish", 4)
		case strings.HasPrefix(name, "blog"):
			k := max(1, atoi(strings.TrimPrefix(name, "blog/page/")))
			for n := (k - 1) * perPage; n < min(posts, k*perPage); n++ {
				d.link("/%s/", slug(fmt.Sprint("parish", n)))
				d.say(fmt.Sprint("parish title", n), 1)
			}
			if k*perPage < posts {
				d.link("/blog/page/%d/", k+1)
			}
		case name == "calendar":
			month, year, day := max(1, atoi(val(q, "month"))), max(2024, atoi(val(q, "yr"))), max(1, atoi(val(q, "dy")))
			for _, view := range []string{"month", "week", "day"} {
				for _, format := range []string{"list", "calendar", "mini"} {
					d.link("/calendar/?format=%s&time=%s&dy=%d&month=%d&yr=%d", format, view, day, month, year)
				}
			}
			for _, step := range []int{-1, 1} {
				m := month + step
				y := year
				if m < 1 || m > 12 {
					m = 13 - max(1, min(12, m))
					y += step
				}
				d.link("/calendar/?month=%d&yr=%d", m, y)
				d.link("/calendar/?time=%s&month=%d&dy=%d&yr=%d", "week", m, 1+(day+6)%28, y)
			}
			for category := range 4 {
				d.link("/calendar/?mcat=%d&month=%d&yr=%d", category, month, year)
			}
			for dy := 1; dy <= 28; dy++ {
				d.link("/calendar/?time=day&dy=%d&month=%d&yr=%d", dy, month, year)
			}
			d.link("/calendar/?my-calendar-api=ical&month=%d&yr=%d", month, year)
			d.lines = append(d.lines, fmt.Sprintf("Events in %d/%d", month, year), "Previous", "Next")
			if year == 2024 {
				d.link("/mc-events/event-%d/", month-1)
				d.say(fmt.Sprint("parish event title", month), 1)
			}
		case strings.HasPrefix(name, "mc-events/"):
			n := atoi(strings.TrimPrefix(name, "mc-events/event-"))
			d.is(fmt.Sprint("event", n))
			d.say(fmt.Sprint("parish event", n), 4)
			d.link("/calendar/?month=%d&yr=%d", 1+n%12, 2024)
		default:
			for n := range posts {
				if slug(fmt.Sprint("parish", n)) == name {
					d.is(fmt.Sprint("post", n))
					d.say(fmt.Sprint("parish post", n), 7)
					d.link("/%s/?replytocom=%d", name, n*3)
					d.link("/%s/?replytocom=%d", name, n*3+1)
				}
			}
		}
		return d.page
	}
	return &site{name: "mycal", after: "WordPress with My Calendar", start: "/", real: realOnes(map[string]int{"home": 1, "post": posts, "event": events}), get: get}
}

// hugo is a blog of many years, in whose archive each URL is a page.
func hugo() *site {
	const posts, perPage, tags = 500, 20, 30
	own := realOnes(map[string]int{"post": posts, "list": posts / perPage, "tag": tags})
	slugOf := func(n int) string { return slug(fmt.Sprint("hugo", n)) + "-" + vocabulary[n%len(vocabulary)] }
	get := func(path string, _ []kv) page {
		d := newDraft("Essays")
		seg := strings.Split(strings.Trim(path, "/"), "/")
		list := func(k int) {
			d.is(fmt.Sprint("list", k-1))
			for n := (k - 1) * perPage; n < k*perPage; n++ {
				d.link("/posts/%d/%s/", 2004+n/25, slugOf(n))
				d.say(fmt.Sprint("hugo title", n), 1)
			}
			if k*perPage < posts {
				d.link("/page/%d/", k+1)
			}
		}
		switch {
		case seg[0] == "page":
			list(atoi(seg[1]))
		case seg[0] == "tags" && len(seg) == 2:
			for t := range tags {
				if vocabulary[t] == seg[1] {
					d.is(fmt.Sprint("tag", t))
				}
			}
			d.say("hugo tag "+seg[1], 1)
		case seg[0] == "posts" && len(seg) == 3:
			for n := range posts {
				if slugOf(n) == seg[2] {
					d.is(fmt.Sprint("post", n))
					d.link("/tags/%s/", vocabulary[n%tags])
				}
			}
			d.say("hugo "+seg[2], 12)
		default:
			list(1)
		}
		return d.page
	}
	return &site{name: "hugo", after: "Hugo", start: "/", harmless: true, real: own, get: get}
}

// sphinx is a manual with five versions in two languages, sources and searches. Only what an
// edition has changed is its own.
func sphinx() *site {
	const pages = 60
	editions := []string{"en/latest", "en/stable", "en/v4.1", "en/v4.0", "en/v3.9", "fr/latest", "fr/stable"}
	own := map[string]bool{}
	changed := func(edition, n int) bool { return edition == 0 || edition == 5 || (n+edition)%6 == 0 }
	for e := range editions {
		for n := range pages {
			if changed(e, n) {
				own[fmt.Sprint(e, "/", n)] = true
			}
		}
	}
	name := func(n int) string {
		return []string{"guide", "api", "howto"}[n%3] + "/" + slug(fmt.Sprint("sphinx", n))
	}
	index := map[string]int{}
	for n := range pages {
		index[name(n)] = n
	}
	get := func(path string, _ []kv) page {
		d := newDraft("Manual")
		for e, edition := range editions {
			rest, ok := strings.CutPrefix(path, "/"+edition+"/")
			if !ok {
				continue
			}
			d.link("/%s/genindex.html", edition)
			d.link("/%s/search.html", edition)
			if source, isSource := strings.CutPrefix(rest, "_sources/"); isSource {
				return page{lines: text("sphinx "+source+edition[:2], 9)}
			}
			base := strings.TrimSuffix(rest, ".html")
			n, isPage := index[base]
			if !isPage {
				for n := range pages {
					d.link("/%s/%s.html", edition, name(n))
					d.lines = append(d.lines, name(n))
				}
				return d.page
			}
			d.say("sphinx "+base+edition[:2], 9)
			if changed(e, n) {
				d.is(fmt.Sprint(e, "/", n))
				d.say(fmt.Sprint("sphinx", base, e), 2)
			}
			d.link("/%s/_sources/%s.rst.txt", edition, base)
			d.link("/%s/%s.html", edition, name((n+1)%pages))
			for _, other := range editions {
				d.link("/%s/%s.html", other, base)
			}
			return d.page
		}
		d.links = []string{"/en/latest/index.html"}
		return d.page
	}
	return &site{name: "sphinx", after: "Sphinx on Read the Docs", start: "/en/latest/index.html", real: own, get: get}
}

// nuke tells pages, prints and forms of an article apart by the word of one parameter alone.
func nuke() *site {
	const articles = 150
	get := func(path string, q []kv) page {
		d := newDraft("Gazette")
		n := atoi(val(q, "sid"))
		switch file := val(q, "file"); {
		case path == "/":
			d.is("home0")
			d.say("nuke", 3)
			for n := range 10 {
				d.link("/modules.php?name=News&file=article&sid=%d", n*articles/10)
			}
		case file == "article":
			d.is(fmt.Sprint("article", n))
			d.say(fmt.Sprint("nuke", n), 5)
			for _, other := range []string{"print", "friend", "comments", "rate", "categories"} {
				d.link("/modules.php?name=News&file=%s&sid=%d", other, n)
			}
			d.link("/modules.php?name=News&file=article&sid=%d", (n+1)%articles)
		case file == "print":
			d.say(fmt.Sprint("nuke", n), 5)
			d.lines = append(d.lines, "This article comes from the Gazette")
		default:
			d.lines = append(d.lines, "Sorry, "+file+" is for members only")
			for order := range 4 {
				d.link("/modules.php?name=News&file=%s&sid=%d&mode=thread&order=%d", file, n, order)
			}
		}
		return d.page
	}
	return &site{name: "nuke", after: "PHP-Nuke", start: "/", real: realOnes(map[string]int{"home": 1, "article": articles}), get: get}
}
