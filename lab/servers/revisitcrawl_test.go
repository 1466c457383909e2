package servers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/evidence/audit"
	"github.com/go-politeness/politeness/revisit"
)

// shortVarnish is Varnish before a plain site, which keeps what it has for a second.
const shortVarnish = `
vcl 4.1;
backend site {
	.host = "$HOST";
	.port = "$PORT";
}
sub vcl_backend_response {
	set beresp.ttl = 1s;
	set beresp.grace = 0s;
}
`

// revisited are the servers of which files are asked for again.
var revisited = []*Server{
	loggers[0],
	loggers[1],
	{
		Name: "Varnish", programs: onVarnish,
		start: func(r *instance) error {
			origin, err := r.origin()
			if err != nil {
				return err
			}
			host, port, err := net.SplitHostPort(origin)
			if err != nil {
				return err
			}
			vcl, err := r.conf("site.vcl", shortVarnish, "$HOST", host, "$PORT", port)
			if err != nil {
				return err
			}
			work := r.path("varnish")
			if err := r.run("", "varnishd", "-F", "-j", "none", "-n", work, "-a", r.addr, "-f", vcl,
				"-s", "malloc,32m", "-p", "thread_pools=1", "-p", "thread_pool_min=10"); err != nil {
				return err
			}
			if err := r.ready(); err != nil {
				return err
			}
			return r.run(r.path("combined.log"), "varnishncsa", "-n", work, "-F", `%h - - %t "%r" %s %b "-" "%{User-Agent}i"`)
		},
	},
}

// The files of the site: how many are of which kind.
const (
	sameFiles    = 60
	editedFiles  = 20
	touchedFiles = 10
	goneFiles    = 10
	newFiles     = 10
)

// filesOf returns the names of the files of a kind.
func filesOf(kind string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%02d.html", kind, i))
	}
	return names
}

// writeFile writes a file that was last changed some time ago: a server doubts younger ones.
func writeFile(t *testing.T, dir, name, text string, ago time.Duration) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-ago)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// writeList writes the page that leads to all others.
func writeList(t *testing.T, dir string, ago time.Duration, names ...[]string) {
	t.Helper()
	links := ""
	for _, name := range slices.Concat(names...) {
		links += fmt.Sprintf("<a href=%q>%s</a>\n", name, name)
	}
	writeFile(t, dir, "list.html", links, ago)
}

// TestACrawlComesBack to the files of real servers, by links alone: by their own logs what is as it was
// is a 304, what was edited or touched is sent once more, what is new is found, and what is gone is
// asked for once. No file is asked for twice within Min.
func TestACrawlComesBack(t *testing.T) {
	same := filesOf("same", sameFiles)
	edited := filesOf("edited", editedFiles)
	touched := filesOf("touched", touchedFiles)
	gone := filesOf("gone", goneFiles)
	found := filesOf("new", newFiles)
	for _, s := range revisited {
		t.Run(s.Name, func(t *testing.T) {
			if missing := s.Missing(); len(missing) > 0 {
				t.Skipf("needs %s; make setup installs servers", strings.Join(missing, ", "))
			}
			r := launchLogger(t, s)
			dir := r.path("site")
			for _, name := range slices.Concat(same, edited, touched, gone) {
				writeFile(t, dir, name, "<p>The text of "+name, 48*time.Hour)
			}
			writeList(t, dir, 48*time.Hour, same, edited, touched, gone)
			changes, host := comeBack(t, r.URL()+"list.html", len(same)+len(edited)+len(touched)+len(gone)+1, func() {
				for _, name := range edited {
					writeFile(t, dir, name, "<p>Another text of "+name, 24*time.Hour)
				}
				for _, name := range touched {
					writeFile(t, dir, name, "<p>The text of "+name, 24*time.Hour)
				}
				for _, name := range gone {
					if err := os.Remove(filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range found {
					writeFile(t, dir, name, "<p>The text of "+name, 24*time.Hour)
				}
				writeList(t, dir, 24*time.Hour, same, edited, touched, found)
			})
			want := map[revisit.Change]int{
				revisit.New:     len(same) + len(edited) + len(touched) + len(gone) + len(found) + 1,
				revisit.Changed: len(edited) + 1,
				revisit.Gone:    len(gone),
			}
			for change, n := range want {
				if changes[change] != n {
					t.Errorf("%d pages are %s, want %d", changes[change], change, n)
				}
			}
			answered := host.Answers - host.Refused.None
			log := readCombined(t, waitForLines(t, r.path("combined.log"), answered))
			log.wants(t, same, "200")
			log.wants(t, edited, "200 200")
			log.wants(t, touched, "200 200")
			log.wants(t, gone, "200 404")
			log.wants(t, found, "200")
			if early := log.early(); len(early) > 3 || slices.ContainsFunc(early, func(status string) bool { return status != "304" }) {
				t.Errorf("asked for again within %v: %q", leastAgain, early)
			}
			log.wantsSpared(t, host, s.Name == "Varnish")
		})
	}
}

// leastAgain is the time after which files are asked for again.
const leastAgain = 4 * time.Second

// comeBack crawls from url on until it has asked again for what was changed, twice. It returns the
// number of results by their change, and what the judge says of the host. It has the log proved.
func comeBack(t *testing.T, url string, first int, change func()) (map[revisit.Change]int, audit.HostReport) {
	t.Helper()
	var log bytes.Buffer
	sink, err := evidence.NewLog(&log, evidence.LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := apart(5 * time.Millisecond)
	cfg.Evidence = sink
	polite, err := politeness.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	changes := make(map[revisit.Change]int)
	unchanged := 0 // since all changes were seen
	_, err = crawl.Run(ctx, crawl.Config{
		Transport: polite,
		Follow:    crawl.SameHost,
		Revisit:   revisit.Schedule{Min: leastAgain, Max: leastAgain},
		Watch:     -1,
		Visit:     func(context.Context, *crawl.Page) error { return nil },
		Done: func(res crawl.Result) {
			changes[res.Change]++
			isFirst := changes[revisit.New] == first && change != nil
			if isFirst {
				change()
				change = nil
			}
			if changes[revisit.Gone] == goneFiles && changes[revisit.Changed] == editedFiles+1 && res.Change == revisit.Same {
				unchanged++
			}
			if unchanged > 3*first {
				cancel()
			}
		},
	}, url)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := audit.Check(&log)
	if err != nil || !report.OK() {
		t.Errorf("the log isn't proved: %v\n%v", err, report)
	}
	return changes, report.Hosts[0]
}

// Answers are an access log: what each path was answered, and when.
type answers map[string][]answered

type answered struct {
	status string
	bytes  int64 // that were sent
	at     time.Time
}

var combinedLine = regexp.MustCompile(`\[([^\]]+)\] "GET (?:http://[^/ ]+)?/(\S+) HTTP/1\.1" (\d{3}) (\d+|-) `)

func readCombined(t *testing.T, text []byte) answers {
	t.Helper()
	log := make(answers)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		m := combinedLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[1])
		if err != nil {
			t.Fatal(err)
		}
		sent, _ := strconv.ParseInt(m[4], 10, 64) // "-" is none
		log[m[2]] = append(log[m[2]], answered{m[3], sent, at})
	}
	return log
}

// wants fails unless each of the files was answered with the given statuses, and 304 otherwise.
func (c answers) wants(t *testing.T, names []string, want string) {
	t.Helper()
	for _, name := range names {
		var statuses []string
		for _, a := range c[name] {
			if a.status != "304" {
				statuses = append(statuses, a.status)
			}
		}
		if got := strings.Join(statuses, " "); got != want {
			t.Errorf("%s is answered %q and 304, want %q", name, got, want)
		}
		isGone := strings.HasSuffix(want, "404")
		if len(c[name]) < 3 && !isGone {
			t.Errorf("%s is asked for %d times only", name, len(c[name]))
		}
	}
}

// wantsSpared fails unless the judge counts the 304 of the log, and the bytes that the server would have
// sent in their place. A server that compresses sends other numbers of bytes than the judge knows of.
func (c answers) wantsSpared(t *testing.T, host audit.HostReport, isPlain bool) {
	t.Helper()
	unchanged := 0
	spared := int64(0)
	for _, all := range c {
		sent := int64(0)
		for _, a := range all {
			switch a.status {
			case "200":
				sent = a.bytes
			case "304":
				unchanged++
				spared += sent
			}
		}
	}
	t.Logf("%d answers 304 for %d bytes by the server's log, %d for %d by the judge", unchanged, spared, host.NotModified, host.Spared)
	if host.NotModified != unchanged {
		t.Errorf("the judge counts %d answers 304, and the server %d", host.NotModified, unchanged)
	}
	if isPlain && host.Spared != spared {
		t.Errorf("the judge counts %d bytes that weren't sent, and the server's log has %d", host.Spared, spared)
	}
}

// early returns the statuses of requests for files that came within leastAgain of the one before.
func (c answers) early() (statuses []string) {
	for name, all := range c {
		for i := range all {
			// The log has whole seconds.
			isSite := strings.Contains(name, "-") && !strings.HasPrefix(name, "s0")
			if isSite && i > 0 && all[i].at.Sub(all[i-1].at) < leastAgain-time.Second {
				statuses = append(statuses, all[i].status)
			}
		}
	}
	return statuses
}
