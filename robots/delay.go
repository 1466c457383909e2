package robots

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// maxDelay bounds the delays of a file, so that sums with them don't overflow. It is a hundred
// years.
const maxDelay = 100 * 365 * 24 * time.Hour

// day is the time after which windows of the day repeat.
const day = 24 * time.Hour

// CrawlDelay returns the longest Crawl-delay of the crawler's groups, and whether there is one. A
// crawl-delay is the gap between two starts. It isn't capped. If a crawler can't wait for so long,
// it must leave the site alone. Use Floor to pace requests.
//
// A value is a decimal number of seconds ("10", "0.5", ".5"). A line with anything else, such as a
// sign, a unit or an exponent, is skipped. Crawl-delay isn't part of RFC 9309, and Google's
// crawlers ignore it.
func (r *Rules) CrawlDelay() (time.Duration, bool) {
	return r.delay, r.hasDelay
}

// RequestRate returns the strictest Request-rate of the crawler's groups that is in force at t, and
// whether there is one. If several rates are equally strict, it returns the first.
func (r *Rules) RequestRate(t time.Time) (Rate, bool) {
	var strictest Rate
	found := false
	for rate := range r.extra().allRates() {
		if !rate.Window.Contains(t) {
			continue
		}
		if !found || rate.Gap() > strictest.Gap() {
			strictest = rate
			found = true
		}
	}
	return strictest, found
}

// RequestRates returns all rates that the crawler's groups ask for, in the file's order.
func (r *Rules) RequestRates() []Rate { return slices.Collect(r.extra().allRates()) }

// allRates yields the rates.
func (x *extras) allRates() iter.Seq[Rate] {
	return func(yield func(Rate) bool) {
		for num, value := range x.rates.all() {
			rate, _ := parseRate(value) // add keeps only those that can be read
			rate.Line = num
			if !yield(rate) {
				return
			}
		}
	}
}

// VisitTime returns the windows of the day in which the crawler may come, by the Visit-time lines
// of its groups. They are in the file's order. If there is no window, the crawler may come at any
// time. Use Window.Next to wait for one.
func (r *Rules) VisitTime() []Window { return append([]Window(nil), r.extra().visits...) }

// Floor returns the gap between two starts that the file asks for at time t. It is the longer of
// crawl-delay and request-rate, 0 if there is none. Use it to pace requests.
func (r *Rules) Floor(t time.Time) time.Duration {
	rate, _ := r.RequestRate(t)
	return max(r.delay, rate.Gap())
}

// A Rate is a Request-rate line. It allows at most Requests within Per, while Window is open. The
// line has a value such as 1/5 (seconds), 1/10m, 30/1h or 1/1d, optionally followed by a window of
// the day, such as 0600-0845.
type Rate struct {
	Requests int64
	Per      time.Duration
	Window   Window // the zero Window stands for always
	Line     int
}

// Gap returns the rate as a gap between two starts, rounded up.
func (r Rate) Gap() time.Duration {
	if r.Requests <= 0 {
		return 0
	}
	n := time.Duration(r.Requests)
	gap := r.Per / n
	if r.Per%n > 0 {
		gap++ // rounded down, one request too many would fit
	}
	return gap
}

// A Window is a stretch of the day in UTC. The zero Window is the whole day.
//
// From and To count from midnight. From is within the window, To isn't. A window whose From is
// later than its To spans midnight. If both are equal, the window is the whole day.
type Window struct{ From, To time.Duration }

// Contains reports whether t is within the window.
func (w Window) Contains(t time.Time) bool {
	// Both count from the beginning of the window, so that it may span midnight.
	length := (w.To - w.From + day) % day
	at := (sinceMidnight(t) - w.From + day) % day
	return length == 0 || at < length
}

// Next returns the first moment at or after t that is within the window. Use it to wait until the
// crawler may come.
func (w Window) Next(t time.Time) time.Time {
	if w.Contains(t) {
		return t
	}
	return t.Add((w.From - sinceMidnight(t) + day) % day)
}

// sinceMidnight returns how long t is after midnight, UTC.
func sinceMidnight(t time.Time) time.Duration { return t.Sub(t.Truncate(day)) }

// parseSeconds reads a decimal number of seconds, at most maxDelay. Digits beyond nanoseconds are
// cut.
func parseSeconds(s string) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" {
		return 0, false
	}
	if !isDigits(whole) || !isDigits(fraction) {
		return 0, false
	}
	// Bounded before it is multiplied, so that no number of digits overflows.
	seconds := parseCount(whole, int64(maxDelay/time.Second))
	var nanos int64
	for i := range 9 {
		nanos *= 10
		if i < len(fraction) {
			nanos += int64(fraction[i] - '0')
		}
	}
	return min(time.Duration(seconds)*time.Second+time.Duration(nanos), maxDelay), true
}

// isDigits reports whether s is of ASCII digits only.
func isDigits(s string) bool { return leading(s, isDigit) == s }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseCount reads digits as a number, at most most.
func parseCount(digits string, most int64) int64 {
	var n int64
	for i := range len(digits) {
		n = min(n*10+int64(digits[i]-'0'), most)
	}
	return n
}

// parseRate reads the value of a Request-rate line.
func parseRate(s string) (Rate, bool) {
	rate, window, _ := strings.Cut(strings.ReplaceAll(s, "\t", " "), " ")
	requests, per, _ := strings.Cut(rate, "/")
	count := leading(per, isDigit) // "10" of "1/10m"
	if !isDigits(requests) || count == "" {
		return Rate{}, false
	}
	var unit time.Duration
	switch per[len(count):] {
	case "", "s", "S":
		unit = time.Second
	case "m", "M":
		unit = time.Minute
	case "h", "H":
		unit = time.Hour
	case "d", "D":
		unit = day
	default:
		return Rate{}, false
	}
	r := Rate{
		Requests: parseCount(requests, 1<<62/10), // times ten, it doesn't overflow
		Per:      time.Duration(parseCount(count, int64(maxDelay/unit))) * unit,
	}
	// "0/5" can't ask for no requests at all: Disallow is there for that.
	if r.Requests == 0 || r.Per == 0 {
		return Rate{}, false
	}
	window = trim(window)
	if window == "" {
		return r, true
	}
	// A rate for times that can't be read isn't taken for one of the whole day.
	var ok bool
	r.Window, ok = parseWindow(window)
	return r, ok
}

// parseWindow reads "HHMM-HHMM".
func parseWindow(s string) (Window, bool) {
	first, second, _ := strings.Cut(s, "-")
	from, ok1 := parseClock(trim(first))
	to, ok2 := parseClock(trim(second))
	// As a beginning, 2400 is the midnight of the same day.
	return Window{From: from % day, To: to}, ok1 && ok2
}

// parseClock reads "HHMM", up to "2400".
func parseClock(s string) (time.Duration, bool) {
	if len(s) != 4 || !isDigits(s) {
		return 0, false
	}
	n := parseCount(s, 9999)
	at := time.Duration(n/100)*time.Hour + time.Duration(n%100)*time.Minute
	return at, n%100 < 60 && at <= day
}
