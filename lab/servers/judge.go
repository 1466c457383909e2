package servers

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Line is a request as a server has logged it.
type Line struct {
	Start, End time.Time // of the exchange, by the server's clock
	Client     string    // address
	Port       string    // of the client: it tells connections apart
	Status     int       // 0: the server dropped the connection without an answer
	Method     string
	Path       string
	RetryAfter time.Duration // 0: none was sent, or none is known
}

// ReadLog reads an access log. Its lines are
//
//	start|end:UNIT:UNIT TIME DURATION CLIENT PORT STATUS METHOD PATH RETRY-AFTER
//
// where the first field says whether TIME is that of the start or of the end, and the units of TIME
// (since 1970) and DURATION: s, ms or us. Lines of other clients than client are left out; so are
// requests that the server couldn't read (without a path).
func ReadLog(r io.Reader, client string) ([]Line, error) {
	var lines []Line
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		f := strings.Fields(s.Text())
		if len(f) != 9 {
			return nil, fmt.Errorf("line %d: %d fields instead of 9: %q", n, len(f), s.Text())
		}
		if f[3] != client || !strings.HasPrefix(f[7], "/") {
			continue
		}
		l, err := parseLine(f)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w: %q", n, err, s.Text())
		}
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b Line) int { return a.Start.Compare(b.Start) })
	return lines, s.Err()
}

func parseLine(f []string) (Line, error) {
	form := strings.Split(f[0], ":")
	if len(form) != 3 || !slices.Contains([]string{"start", "end"}, form[0]) {
		return Line{}, errors.New("unknown form")
	}
	at, err := inUnit(f[1], form[1])
	if err != nil {
		return Line{}, err
	}
	took, err := inUnit(f[2], form[2])
	if err != nil {
		return Line{}, err
	}
	l := Line{Start: time.UnixMicro(at.Microseconds()), Client: f[3], Port: f[4], Method: f[6], Path: f[7]}
	if form[0] == "end" {
		l.Start = l.Start.Add(-took)
	}
	l.End = l.Start.Add(took)
	if status, err := strconv.Atoi(f[5]); err == nil && status > 0 {
		l.Status = status
	}
	if seconds, err := strconv.ParseFloat(f[8], 64); err == nil {
		l.RetryAfter = time.Duration(seconds * float64(time.Second))
	}
	return l, nil
}

func inUnit(text, unit string) (time.Duration, error) {
	size, ok := map[string]time.Duration{"s": time.Second, "ms": time.Millisecond, "us": time.Microsecond}[unit]
	if !ok {
		return 0, fmt.Errorf("unknown unit %q", unit)
	}
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return 0, err
	}
	d := time.Duration(n) * size
	if fraction != "" {
		part, err := strconv.ParseFloat("0."+fraction, 64)
		if err != nil {
			return 0, err
		}
		d += time.Duration(math.Round(part * float64(size)))
	}
	return d, nil
}

// Refused reports whether the line's answer was a refusal: none, or any error but 404. Every page
// of a Site exists, so that no other status is about a page.
func (l Line) Refused() bool {
	return l.Status == 0 || l.Status >= 400 && l.Status != 404
}

// A Cell sums up one crawler's lines in a server's log.
type Cell struct {
	Requests    int // robots.txt included
	Refusals    int // see Line.Refused
	Repeated    int // refusals whose last request before was refused as well
	Pages       int // different pages that were served
	Served      int // pages that were served, repeats included
	Connections int
	Disallowed  int // requests below Private

	// InRetryAfter counts the requests that came later than Transit after an answer with
	// Retry-After had been sent, and before that time was over.
	InRetryAfter int

	// Foreseeable counts the refusals of requests that began later than Transit after all requests
	// before had been answered: whatever these answers stated was known by then.
	Foreseeable int

	// InBan counts the refusals after the knownBan-th in a row: requests inside a ban that was known.
	InBan int

	// AtOnce is the largest number of exchanges that overlapped for longer than Transit.
	AtOnce int

	// Early is by how much the requests ran ahead of the delay at the worst: the largest difference,
	// over all pairs of requests, between the time that the delay asks for between them and the time
	// that lay between. The fetches of robots.txt aren't among them.
	Early time.Duration

	MinGap time.Duration // smallest distance of two starts

	// Transit is how long an answer may take from the server's log to the crawler's decision, and a
	// request from there to the server.
	Transit time.Duration

	First time.Time // start of the first request; zero: there was none
	Last  time.Time // start of the last request
}

// knownBan is how many refusals in a row it takes to know a ban: five, the page that was served
// before and is refused now, and one that was in flight.
const knownBan = 7

// Judge derives the Cell of a crawler from its lines, which are in the order of their starts. The
// crawler has promised at least delay between two starts.
func Judge(lines []Line, site Site, delay, transit time.Duration) Cell {
	c := Cell{Transit: transit}
	pages := map[string]bool{}
	ports := map[string]bool{}
	inRow := 0
	var answered time.Time // the last answer so far
	for i, l := range lines {
		c.Requests++
		ports[l.Port] = true
		if strings.HasPrefix(l.Path, Private) {
			c.Disallowed++
		}
		if site.IsPage(l.Path) && (l.Status == 200 || l.Status == 304) {
			pages[l.Path] = true
			c.Served++
		}
		if l.Refused() {
			c.Refusals++
			if i > 0 && l.Start.After(answered.Add(transit)) {
				c.Foreseeable++
			}
			inRow++
			if inRow > 1 {
				c.Repeated++
			}
		} else {
			inRow = 0
		}
		if inRow > knownBan {
			c.InBan++
		}
		if l.End.After(answered) {
			answered = l.End
		}
		if i > 0 {
			if gap := l.Start.Sub(lines[i-1].Start); i == 1 || gap < c.MinGap {
				c.MinGap = gap
			}
		}
	}
	c.Pages = len(pages)
	c.Connections = len(ports)
	if len(lines) > 0 {
		c.First = lines[0].Start
		c.Last = lines[len(lines)-1].Start
	}
	c.InRetryAfter = inRetryAfter(lines, transit)
	c.AtOnce = atOnce(lines, transit)
	c.Early = early(lines, max(delay, time.Duration(site.CrawlDelay)*time.Second))
	return c
}

// sending is how much earlier than the end of a line its answer may have been sent: logs have it
// when the server has put all away.
const sending = 100 * time.Millisecond

func inRetryAfter(lines []Line, transit time.Duration) int {
	n := 0
	for _, l := range lines {
		if slices.ContainsFunc(lines, func(refused Line) bool { return refused.isAround(l, transit) }) {
			n++
		}
	}
	return n
}

// isAround reports whether the Retry-After of l held when another request began, however early the
// answer was sent and however late it came.
func (l Line) isAround(other Line, transit time.Duration) bool {
	const rounding = 2 * time.Millisecond // logs have milliseconds
	if l.RetryAfter <= 0 {
		return false
	}
	sent := l.End.Add(-min(l.End.Sub(l.Start), sending))
	known := l.End.Add(transit)
	return other.Start.After(known) && other.Start.Before(sent.Add(l.RetryAfter-rounding))
}

func atOnce(lines []Line, transit time.Duration) int {
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, l := range lines {
		if end := l.End.Add(-transit); end.After(l.Start) {
			edges = append(edges, edge{l.Start, 1}, edge{end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(a.at.Compare(b.at), a.step-b.step) })
	now := 0
	most := 0
	for _, e := range edges {
		now += e.step
		most = max(most, now)
	}
	return most
}

// early finds the largest lead of a request over the delay's schedule: with the i-th request due i
// delays after the first, the lead of j over an earlier i is (due j - start j) - (due i - start i).
func early(lines []Line, delay time.Duration) time.Duration {
	var worst, least time.Duration
	n := 0
	for _, l := range lines {
		if l.Path == "/robots.txt" {
			continue
		}
		lead := time.Duration(n)*delay - l.Start.Sub(lines[0].Start)
		if n == 0 {
			least = lead
		}
		least = min(least, lead)
		worst = max(worst, lead-least)
		n++
	}
	return worst
}
