package traps

import (
	"fmt"
	"strings"
)

// dspace is a repository of papers: browse indexes with pages, sorts and sizes, searches by filters
// that combine, full records, files, and counts of downloads.
func dspace() *site {
	const items, collections, perPage = 240, 6, 20
	authors := func(n int) []int { return []int{n % 60, (n*7 + 3) % 60} }
	subject := func(n int) int { return (n*5 + 1) % 24 }
	author := func(n int) string { return strings.Title(vocabulary[n%40] + "%2C+" + vocabulary[(n*3+5)%40]) } //nolint:staticcheck // ASCII
	handle := func(n int) string { return fmt.Sprintf("/handle/10/%d", 100+n) }
	browse := func(d *draft, base, query string, found []int, start int) {
		for _, n := range found[min(start, len(found)):min(start+perPage, len(found))] {
			d.link("%s", handle(n))
			d.say(fmt.Sprint("dspace title", n), 1)
		}
		d.link("%s?%s&offset=%d", base, query, start+perPage)
		if start >= perPage {
			d.link("%s?%s&offset=%d", base, query, start-perPage)
		}
		for _, sort := range []int{1, 2, 3} {
			for _, order := range []string{"ASC", "DESC"} {
				for _, size := range []int{5, 20, 60, 100} {
					d.link("%s?%s&sort_by=%d&order=%s&rpp=%d&etal=-1", base, query, sort, order, size)
				}
			}
		}
		for letter := 'A'; letter <= 'Z'; letter++ {
			d.link("%s?%s&starts_with=%c", base, query, letter)
		}
	}
	get := func(path string, q []kv) page {
		d := newDraft("Archive of papers")
		d.link("/")
		d.link("/community-list")
		d.link("/login?return=%d", len(path)*10+len(q))
		for _, kind := range []string{"dateissued", "author", "title", "subject"} {
			d.link("/browse?type=%s", kind)
		}
		start := atoi(val(q, "offset"))
		var found []int
		for n := range items {
			isFound := true
			for _, p := range q {
				switch {
				case p.k == "value" && val(q, "type") == "subject":
					isFound = isFound && vocabulary[subject(n)] == p.v
				case p.k == "value" && val(q, "type") == "author":
					isFound = isFound && (author(authors(n)[0]) == p.v || author(authors(n)[1]) == p.v)
				case strings.HasPrefix(p.k, "filter_") && len(p.v) > 0 && p.v[0] < 'a':
					isFound = isFound && (author(authors(n)[0]) == p.v || author(authors(n)[1]) == p.v)
				case p.k == "filter_0" || p.k == "filter_1" || p.k == "filter_2":
					isFound = isFound && vocabulary[subject(n)] == p.v
				}
			}
			if isFound {
				found = append(found, n)
			}
		}
		segments := strings.Split(strings.Trim(path, "/"), "/")
		switch {
		case path == "/":
			d.is("home0")
			d.say("dspace home", 4)
			for n := items - 5; n < items; n++ {
				d.link("%s", handle(n))
			}
		case path == "/community-list":
			d.say("dspace communities", 2)
			for c := range collections {
				d.link("/handle/10/%d", c+1)
			}
		case path == "/browse" && val(q, "value") == "" && val(q, "type") == "author":
			for n := start; n < min(60, start+perPage); n++ {
				d.link("/browse?type=author&value=%s", author(n))
				d.lines = append(d.lines, strings.ReplaceAll(author(n), "%2C+", ", "))
			}
			d.link("/browse?type=author&offset=%d", start+perPage)
		case path == "/browse" && val(q, "value") == "" && val(q, "type") == "subject":
			for n := start; n < min(24, start+perPage); n++ {
				d.link("/browse?type=subject&value=%s", vocabulary[n])
				d.lines = append(d.lines, vocabulary[n])
			}
			d.link("/browse?type=subject&offset=%d", start+perPage)
		case path == "/browse":
			query := "type=" + val(q, "type")
			if v := val(q, "value"); v != "" {
				query += "&value=" + v
			}
			browse(d, "/browse", query, found, start)
		case path == "/discover":
			query, filters := "", 0
			for _, p := range q {
				if strings.HasPrefix(p.k, "filter") {
					query += p.k + "=" + p.v + "&"
				}
				if strings.HasPrefix(p.k, "filter_") && !strings.HasPrefix(p.k, "filter_relational") {
					filters++
				}
			}
			for _, n := range found[min(start, len(found)):min(start+10, len(found))] {
				d.link("%s", handle(n))
				d.say(fmt.Sprint("dspace title", n), 1)
			}
			if start+10 < len(found) {
				d.link("/discover?%srpp=10&page=%d", query, start/10+2)
			}
			for n := range 10 {
				if filters == 8 { // a longer URL would make the test slow
					break
				}
				d.link("/discover?%sfiltertype_%d=subject&filter_relational_operator_%d=equals&filter_%d=%s", query, filters, filters, filters, vocabulary[n])
				d.link("/discover?%sfiltertype_%d=author&filter_relational_operator_%d=equals&filter_%d=%s", query, filters, filters, filters, author(n))
			}
		case segments[0] == "handle" && len(segments) >= 3:
			n := number(segments[2]) - 100
			if n < 0 {
				c := number(segments[2])
				d.say(fmt.Sprint("dspace collection", c), 2)
				d.link("/handle/10/%d/discover?filtertype_0=subject", c)
				for n := c - 1; n < items; n += collections * 6 {
					d.link("%s", handle(n))
				}
				d.link("/handle/10/%d/browse?type=title", c)
				d.link("/feed/atom_1.0/10/%d", c)
				d.link("/feed/rss_2.0/10/%d", c)
				if len(segments) > 3 {
					own := found[:0]
					for _, n := range found {
						if n%collections == c-1 {
							own = append(own, n)
						}
					}
					browse(d, path, "type=title", own, start)
				}
				return d.page
			}
			switch {
			case len(segments) > 3:
				d.lines = append(d.lines, "Total visits", "Total visits per month", fmt.Sprint(n*37))
			case val(q, "show") == "full":
				d.say(fmt.Sprint("dspace title", n), 1)
				d.say(fmt.Sprint("dspace", n), 5)
				d.lines = append(d.lines, "dc.date.issued", "dc.contributor.author", "dc.identifier.uri")
			default:
				d.is(fmt.Sprint("item", n))
				d.say(fmt.Sprint("dspace title", n), 1)
				d.say(fmt.Sprint("dspace", n), 5)
			}
			d.link("%s?show=full", handle(n))
			d.link("%s/statistics", handle(n))
			d.link("/bitstream/handle/10/%d/paper.pdf?sequence=1&isAllowed=y", 100+n)
			d.link("/bitstream/handle/10/%d/paper.pdf.txt?sequence=2&isAllowed=y", 100+n)
			for _, a := range authors(n) {
				d.link("/browse?type=author&value=%s", author(a))
				d.link("/discover?filtertype_0=author&filter_relational_operator_0=equals&filter_0=%s", author(a))
			}
			d.link("/discover?filtertype_0=subject&filter_relational_operator_0=equals&filter_0=%s", vocabulary[subject(n)])
		case segments[0] == "bitstream":
			n := number(segments[3]) - 100
			d.links = nil
			d.lines = nil
			d.say(fmt.Sprint("dspace", n), 5)
		case segments[0] == "feed":
			d.links = nil
			d.lines = []string{"feed"}
		default:
			d.lines = append(d.lines, "E-mail address", "Password")
		}
		return d.page
	}
	return &site{name: "dspace", after: "DSpace", start: "/", real: realOnes(map[string]int{"home": 1, "item": items}), get: get}
}

// redmine has lists of issues with any columns, groups and sorts, forms with values filled in, and a
// calendar, a chart and an activity without end.
func redmine() *site {
	const issues, pages, perPage = 200, 12, 25
	columns := []string{"tracker", "status", "priority", "subject", "assigned_to", "updated_on"}
	get := func(path string, q []kv) page {
		d := newDraft("Planner")
		for _, part := range []string{"", "/activity", "/issues", "/issues/gantt", "/issues/calendar", "/wiki", "/issues/new"} {
			d.link("/projects/kiln%s", part)
		}
		d.link("/login?back_url=http%%3A%%2F%%2Fsite.example%s", strings.ReplaceAll(path, "/", "%2F"))
		segments := strings.Split(strings.Trim(path, "/"), "/")
		last := segments[len(segments)-1]
		switch {
		case path == "/" || path == "/projects/kiln":
			d.is("home0")
			d.say("redmine home", 4)
			for tracker := 1; tracker <= 3; tracker++ {
				d.link("/projects/kiln/issues?set_filter=1&tracker_id=%d", tracker)
			}
		case segments[0] == "issues" && len(segments) == 2 && number(last) > 0 && number(last) <= issues:
			n := number(last) - 1
			if strings.Contains(last, ".") { // as PDF and as feed
				d.links = nil
				d.lines = nil
				d.say(fmt.Sprint("redmine", n), 3)
				break
			}
			d.is(fmt.Sprint("issue", n))
			d.say(fmt.Sprint("redmine title", n), 1)
			d.say(fmt.Sprint("redmine", n), 5)
			d.link("/issues/%d.pdf", n+1)
			d.link("/issues/%d.atom", n+1)
			d.link("/issues/%d?tab=history", n+1)
			d.link("/issues/%d/time_entries/new", n+1)
			d.link("/projects/kiln/issues/%d/copy", n+1)
			d.link("/projects/kiln/issues/new?issue%%5Bparent_issue_id%%5D=%d&issue%%5Btracker_id%%5D=1", n+1)
			d.link("/issues/%d", (n+1)%issues+1)
			d.link("/users/%d", n%9)
			d.link("/attachments/download/%d/log.txt", n)
		case last == "issues":
			query := "set_filter=1"
			tracker := atoi(val(q, "tracker_id"))
			if tracker > 0 {
				query += fmt.Sprintf("&tracker_id=%d", tracker)
			}
			start := max(0, atoi(val(q, "page"))-1) * perPage
			seen := 0
			for n := range issues {
				if tracker > 0 && n%3+1 != tracker {
					continue
				}
				if seen >= start && seen < start+perPage {
					d.link("/issues/%d", n+1)
					d.say(fmt.Sprint("redmine title", n), 1)
				}
				seen++
			}
			for k := range (seen + perPage - 1) / perPage {
				d.link("/projects/kiln/issues?%s&page=%d", query, k+1)
			}
			sort := val(q, "sort")
			for _, c := range columns {
				before := sort
				if before != "" {
					before = "," + before
				}
				if strings.Count(sort, ",") < 2 && !strings.Contains(sort, c) {
					d.link("/projects/kiln/issues?%s&sort=%s%s", query, c, before)
					d.link("/projects/kiln/issues?%s&sort=%s:desc%s", query, c, before)
				}
				d.link("/projects/kiln/issues?%s&group_by=%s", query, c)
			}
			for _, size := range []int{25, 50, 100} {
				d.link("/projects/kiln/issues?%s&per_page=%d", query, size)
			}
			for _, kind := range []string{"csv", "pdf", "atom"} {
				d.link("/projects/kiln/issues.%s?%s", kind, query)
			}
		case last == "calendar" || last == "gantt":
			month, year := atoi(val(q, "month")), atoi(val(q, "year"))
			if year == 0 {
				month, year = 6, 2024
			}
			for _, step := range []int{-1, 1} {
				m := year*12 + month - 1 + step
				d.link("/projects/kiln/issues/%s?month=%d&year=%d", last, m%12+1, m/12)
				if last == "gantt" {
					for zoom := 1; zoom <= 4; zoom++ {
						d.link("/projects/kiln/issues/gantt?month=%d&months=6&year=%d&zoom=%d", m%12+1, m/12, zoom)
					}
				}
			}
			if year == 2024 {
				for n := month * 6; n < month*6+6; n++ {
					d.link("/issues/%d", n+1)
					d.say(fmt.Sprint("redmine title", n), 1)
				}
			}
		case last == "activity":
			day := atoi(strings.ReplaceAll(val(q, "from"), "-", ""))
			if day == 0 {
				day = 20240630
			}
			d.link("/projects/kiln/activity?from=%04d-%02d-%02d", (day-10)/10000, (day-10)/100%100, (day-10)%100)
			d.link("/projects/kiln/activity?from=%04d-%02d-%02d", (day+10)/10000, (day+10)/100%100, (day+10)%100)
			for _, kind := range []string{"show_issues", "show_wiki_edits", "show_files"} {
				d.link("/projects/kiln/activity?%s=1", kind)
			}
			d.link("/projects/kiln/activity.atom?key=%x", day)
			if day/10000 == 2024 {
				n := day % issues
				d.link("/issues/%d", n+1)
				d.say(fmt.Sprint("redmine title", n), 1)
			}
		case len(segments) >= 3 && segments[2] == "wiki":
			n := 0
			if len(segments) > 3 {
				n = max(0, number(strings.TrimPrefix(segments[3], "Page_")))
			}
			name := fmt.Sprintf("/projects/kiln/wiki/Page_%d", n%pages)
			switch {
			case len(segments) > 4 && last != fmt.Sprintf("Page_%d", n):
				d.lines = append(d.lines, "History", "Version")
				if last == "history" {
					for v := 1; v <= 6; v++ {
						d.link("%s/%d", name, v)
						d.link("%s/%d/annotate", name, v)
						d.link("%s/diff?version=%d&version_from=%d", name, v+1, v)
					}
				} else {
					d.say(fmt.Sprint("redmine wiki", n), 4)
				}
			default:
				d.is(fmt.Sprint("wiki", n%pages))
				d.say(fmt.Sprint("redmine wiki", n%pages), 6)
				d.link("%s/history", name)
				for _, kind := range []string{"pdf", "html", "txt"} {
					d.link("%s.%s", name, kind)
				}
				for k := range 3 {
					d.link("/projects/kiln/wiki/Page_%d", (n*3+k+1)%pages)
				}
			}
		case segments[0] == "attachments":
			d.links = nil
			d.lines = []string{"log"}
		case segments[0] == "users":
			d.lines = append(d.lines, "Registered on", "Last connection")
			d.link("/activity?user_id=%s", last)
		default:
			d.lines = append(d.lines, "Login", "Password", "Lost password")
		}
		return d.page
	}
	return &site{name: "redmine", after: "Redmine", start: "/projects/kiln", real: realOnes(map[string]int{"home": 1, "issue": issues, "wiki": pages}), get: get}
}

// gitlab has the tree of each commit and branch, with blame, history and raw files, comparisons of
// any two, and lists of issues by labels that combine.
func gitlab() *site {
	const commits, files, issues, perPage = 60, 50, 70, 20
	sha := func(n int) string { return fmt.Sprintf("%040x", (n+1)*7919*15485863) }
	of := map[string]int{}
	for n := range commits {
		of[sha(n)] = n
	}
	labels := []string{"bug", "feature", "docs", "urgent", "backend", "frontend", "design"}
	branches := []string{"main", "next", "fix-login", "v1.0", "v1.1"}
	file := func(f int) string { return fmt.Sprintf("%s/%s.go", vocabulary[f%5], vocabulary[8+f/5]) }
	index := map[string]int{}
	for f := range files {
		index[file(f)] = f
	}
	const base = "/team/forge/-/"
	get := func(path string, q []kv) page {
		d := newDraft("Forge")
		for _, part := range []string{"commits/main", "tree/main", "branches", "tags", "issues", "graphs/main", "network/main", "compare"} {
			d.link("%s%s", base, part)
		}
		d.link("/users/sign_in?redirect_to_referer=yes")
		rest := strings.Trim(strings.TrimPrefix(path, base), "/")
		part, after, _ := strings.Cut(rest, "/")
		ref, at, _ := strings.Cut(after, "/")
		if path == "/team/forge" {
			d.is("home0")
			d.say("gitlab home", 5)
			return d.page
		}
		switch part {
		case "commits":
			start := atoi(val(q, "offset"))
			for n := start; n < min(commits, start+perPage); n++ {
				d.link("%scommit/%s", base, sha(n))
				d.link("%stree/%s", base, sha(n))
				d.say(fmt.Sprint("gitlab message", n), 1)
			}
			d.link("%scommits/%s?limit=20&offset=%d", base, after, start+perPage)
			d.link("%scommits/%s?format=atom", base, after)
			d.link("%scommits/%s?author=%s", base, after, vocabulary[start%7])
		case "commit":
			n := of[strings.TrimSuffix(strings.TrimSuffix(ref, ".diff"), ".patch")]
			if strings.HasSuffix(ref, ".diff") || strings.HasSuffix(ref, ".patch") {
				d.links = nil
				d.lines = nil
				d.say(fmt.Sprint("gitlab diff", n), 3)
				break
			}
			d.say(fmt.Sprint("gitlab message", n), 1)
			d.say(fmt.Sprint("gitlab diff", n), 3)
			if at == "" && len(q) == 0 {
				d.is(fmt.Sprint("commit", n))
			}
			d.link("%scommit/%s.diff", base, sha(n))
			d.link("%scommit/%s.patch", base, sha(n))
			d.link("%scommit/%s/pipelines", base, sha(n))
			for _, view := range []string{"inline", "parallel"} {
				d.link("%scommit/%s?view=%s", base, sha(n), view)
				d.link("%scommit/%s?view=%s&w=1", base, sha(n), view)
			}
			if n+1 < commits {
				d.link("%scommit/%s", base, sha(n+1))
			}
			d.link("%sblob/%s/%s", base, sha(n), file(n%files))
		case "tree":
			for f := range files {
				if strings.HasPrefix(file(f), at) {
					d.link("%sblob/%s/%s", base, ref, file(f))
					d.link("%stree/%s/%s", base, ref, strings.Split(file(f), "/")[0])
					d.lines = append(d.lines, file(f))
				}
			}
			for _, kind := range []string{"zip", "tar.gz", "tar"} {
				d.link("%sarchive/%s/forge-%s.%s", base, ref, ref, kind)
			}
			d.link("%scommits/%s/%s", base, ref, at)
			d.link("%sfind_file/%s", base, ref)
		case "blob", "blame", "raw":
			f, isFile := index[at]
			if !isFile {
				break
			}
			if part == "blob" && ref == "main" && len(q) == 0 {
				d.is(fmt.Sprint("file", f))
			}
			d.say(fmt.Sprint("gitlab file", f), 8)
			d.link("%sblame/%s/%s", base, ref, at)
			d.link("%sraw/%s/%s", base, ref, at)
			d.link("%sraw/%s/%s?inline=false", base, ref, at)
			d.link("%sedit/%s/%s", base, ref, at)
			d.link("%scommits/%s/%s", base, ref, at)
			if part == "raw" {
				d.links = nil
			}
		case "branches", "tags":
			for _, b := range branches {
				d.link("%stree/%s", base, b)
				d.link("%scommits/%s", base, b)
				d.link("%scompare/main...%s", base, b)
				d.lines = append(d.lines, b)
			}
			for _, sort := range []string{"name_asc", "updated_asc", "updated_desc"} {
				d.link("%s%s?sort=%s", base, part, sort)
			}
		case "compare":
			from, to, isRange := strings.Cut(after, "...")
			for _, b := range branches {
				if isRange {
					d.link("%scompare/%s...%s", base, to, b)
				}
				d.link("%scompare/%s...%s?straight=true", base, b, from)
			}
			d.say(fmt.Sprint("gitlab message", len(after)%commits), 1)
		case "issues":
			if ref != "" && number(ref) < issues {
				n := number(ref)
				d.is(fmt.Sprint("issue", n))
				d.say(fmt.Sprint("gitlab issue title", n), 1)
				d.say(fmt.Sprint("gitlab issue", n), 5)
				d.link("%sissues/new?issue%%5Bdescription%%5D=Related+to+%d", base, n)
				d.link("/team/forge/uploads/%032x/shot.png", (n+1)*104729)
				for _, l := range []string{labels[n%7], labels[(n*3+1)%7]} {
					d.link("%sissues/?label_name%%5B%%5D=%s", base, l)
				}
				break
			}
			var chosen []string
			query := ""
			for _, p := range q {
				if strings.HasPrefix(p.k, "label_name") {
					chosen = append(chosen, p.v)
					query += "label_name%5B%5D=" + p.v + "&"
				}
			}
			var found []int
			for n := range issues {
				fits := true
				for _, l := range chosen {
					fits = fits && (labels[n%7] == l || labels[(n*3+1)%7] == l)
				}
				if fits {
					found = append(found, n)
				}
			}
			start := max(0, atoi(val(q, "page"))-1) * perPage
			for _, n := range found[min(start, len(found)):min(start+perPage, len(found))] {
				d.link("%sissues/%d", base, n)
				d.say(fmt.Sprint("gitlab issue title", n), 1)
			}
			for k := range (len(found) + perPage - 1) / perPage {
				d.link("%sissues/?%spage=%d", base, query, k+1)
			}
			for _, l := range labels {
				d.link("%sissues/?%slabel_name%%5B%%5D=%s", base, query, l)
			}
			for _, sort := range []string{"created_date", "updated_desc", "popularity", "priority", "label_priority"} {
				d.link("%sissues/?%ssort=%s", base, query, sort)
				d.link("%sissues/?%ssort=%s&state=closed", base, query, sort)
				d.link("%sissues/?%ssort=%s&state=all", base, query, sort)
			}
		case "archive":
			d.links = nil
			d.lines = []string{"archive " + after}
		default:
			d.lines = append(d.lines, "Loading", "Sign in", "Register")
		}
		return d.page
	}
	return &site{name: "gitlab", after: "GitLab", start: "/team/forge", real: realOnes(map[string]int{"home": 1, "commit": commits, "file": files, "issue": issues}), get: get}
}

// discourse is a forum with a URL for each post, lists by category, tag and period that combine with
// orders, and pages of users.
func discourse() *site {
	const topics, posts, perPage, categories = 160, 8, 30, 5
	tags := []string{"help", "howto", "news", "plugin", "theme", "api"}
	names := make([]string, topics)
	for n := range names {
		names[n] = slug(fmt.Sprint("discourse", n))
	}
	get := func(path string, q []kv) page {
		d := newDraft("Commons")
		for _, list := range []string{"latest", "top", "new", "categories", "about", "faq", "tags"} {
			d.link("/%s", list)
		}
		segments := strings.Split(strings.Trim(path, "/"), "/")
		list := func(fits func(n int) bool) {
			k := atoi(val(q, "page"))
			seen := 0
			for n := range topics {
				if !fits(n) {
					continue
				}
				if seen >= k*perPage && seen < (k+1)*perPage {
					d.link("/t/%s/%d", names[n], n+10)
					d.link("/t/%s/%d/%d", names[n], n+10, posts)
					d.say(fmt.Sprint("discourse title", n), 1)
				}
				seen++
			}
			if seen > (k+1)*perPage {
				d.link("%s?page=%d", path, k+1)
				d.link("%s?no_definitions=true&page=%d", path, k+1)
			}
			for _, order := range []string{"default", "posts", "views", "activity", "category"} {
				for _, ascending := range []string{"true", "false"} {
					d.link("%s?ascending=%s&order=%s", path, ascending, order)
				}
			}
			for _, more := range []string{"solved=yes", "solved=no", "status=closed", "max_posts=1"} {
				d.link("%s?%s", path, more)
			}
		}
		switch segments[0] {
		case "t":
			if len(segments) < 3 {
				break
			}
			n := number(segments[2]) - 10
			if n < 0 || n >= topics {
				break
			}
			d.is(fmt.Sprint("topic", n))
			d.say(fmt.Sprint("discourse title", n), 1)
			isPart := len(segments) > 3
			for p := range posts {
				if isPart && p+2 < number(segments[3]) {
					continue
				}
				d.say(fmt.Sprint("discourse post", n, p), 2)
				d.link("/t/%s/%d/%d", names[n], n+10, p+1)
				d.link("/t/%s/%d/%d?u=%s", names[n], n+10, p+1, vocabulary[(n+p)%40])
				d.link("/p/%d", n*100+p)
				d.link("/u/%s", vocabulary[(n+p)%40])
			}
			d.link("/t/%s/%d/print", names[n], n+10)
			d.link("/t/%s/%d.rss", names[n], n+10)
			d.link("/c/c%d/%d", n%categories, n%categories)
			d.link("/tag/%s", tags[n%6])
			d.link("/tags/intersection/%s/%s", tags[n%6], tags[(n+1)%6])
			d.noindex = isPart // its canonical URL is that of the topic
		case "c":
			if len(segments) < 3 {
				break
			}
			for _, period := range []string{"all", "yearly", "quarterly", "monthly", "weekly", "daily"} {
				d.link("/c/%s/%s/l/top?period=%s", segments[1], segments[2], period)
			}
			for _, l := range []string{"latest", "top", "new"} {
				d.link("/c/%s/%s/l/%s", segments[1], segments[2], l)
			}
			for _, t := range tags {
				d.link("/tags/c/%s/%s/%s", segments[1], segments[2], t)
			}
			list(func(n int) bool { return n%categories == number(segments[2]) })
		case "tag", "tags":
			if len(segments) == 1 {
				for _, t := range tags {
					d.link("/tag/%s", t)
				}
				break
			}
			if segments[1] == "intersection" {
				for _, t := range tags {
					if !strings.Contains(path, t) {
						d.link("%s/%s", path, t)
					}
				}
			}
			list(func(n int) bool {
				fits := true
				for _, t := range tags {
					fits = fits && (!strings.Contains(path, t) || tags[n%6] == t || tags[(n+1)%6] == t)
				}
				return fits
			})
		case "latest", "top", "new":
			for _, period := range []string{"all", "yearly", "monthly", "weekly", "daily"} {
				d.link("/top?period=%s", period)
			}
			list(func(int) bool { return true })
		case "u":
			for _, part := range []string{"summary", "activity", "activity/topics", "activity/replies", "badges"} {
				d.link("/u/%s/%s", segments[1], part)
			}
			d.lines = append(d.lines, "Joined", "Last post", "Trust level")
			d.noindex = true
		case "p":
			n := number(segments[1]) / 100 % topics
			d.say(fmt.Sprint("discourse title", n), 1)
			d.say(fmt.Sprint("discourse post", n, number(segments[1])%100), 2)
			d.noindex = true
		case "categories", "":
			d.is("home0")
			d.say("discourse home", 3)
			for c := range categories {
				d.link("/c/c%d/%d", c, c)
			}
		default:
			d.lines = append(d.lines, "About this forum")
		}
		return d.page
	}
	return &site{name: "discourse", after: "Discourse", start: "/", real: realOnes(map[string]int{"home": 1, "topic": topics}), get: get}
}
