package audit

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// This file reads the forms in which hosts state a wait, by the table of docs/429.md. Package
// backoff reads them for the crawl. The auditor has separate, strict code. It concludes nothing
// from a form that it doesn't know exactly.

// statedWait returns the wait that a field of a response of time sent states: a date, or the
// longest of a list of numbers. unread is true if the field is something else, of which the crawl
// may have read any time.
func statedWait(field string, sent time.Time) (wait int64, unread bool) {
	field = strings.Trim(comment.ReplaceAllString(field, ""), " \t")
	if until, ok := dateOf(field, sent); ok {
		return int64(max(0, until.Sub(sent))), false
	}
	for value := range strings.SplitSeq(field, ",") {
		one, ok := waitOf(strings.Trim(value, " \t"), sent)
		if !ok {
			return 0, strings.ContainsAny(field, "0123456789") && !isNegative.MatchString(field)
		}
		wait = max(wait, one)
	}
	return wait, false
}

var (
	comment    = regexp.MustCompile(` ?\([^(),;]*\)$`) // such as the name of a zone
	isNumber   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	isNegative = regexp.MustCompile(`^-[0-9]+$`) // which nobody reads
)

// waitOf returns the wait that a number states: seconds below 1e9, a Unix time below 1e12, one in
// milliseconds below 1e15, or a number with units.
func waitOf(value string, sent time.Time) (int64, bool) {
	if !isNumber.MatchString(value) {
		return lengthOf(strings.ToLower(value))
	}
	n, _ := strconv.ParseFloat(value, 64) // infinite if there are too many digits
	now := float64(sent.UnixMilli()) / 1e3
	switch {
	case n < 1e9 || n >= 1e15:
		return wholeSeconds(n), true
	case n < 1e12:
		return max(0, wholeSeconds(n-now)), true
	}
	return max(0, wholeSeconds(n/1e3-now)), true
}

// farAway is a wait in seconds that is longer than any policy grants.
const farAway = 100 * 365 * 86400

// wholeSeconds rounds seconds up.
func wholeSeconds(n float64) int64 { return int64(math.Ceil(min(n, farAway))) * slack }

var (
	withUnits  = regexp.MustCompile(`^([0-9]+(\.[0-9]+)? ?[a-z]+ ?)+$`)
	numberUnit = regexp.MustCompile(`([0-9.]+) ?([a-z]+)`)
	threeParts = regexp.MustCompile(`^([0-9]+):([0-9]+):([0-9.]+)$`) // as .NET writes a length of time
	period     = regexp.MustCompile(`^pt([0-9]+[hms])+$`)
)

// lengths are the units of time, in seconds.
var lengths = map[string]float64{
	"ms": 1e-3, "millisecond": 1e-3, "s": 1, "sec": 1, "second": 1,
	"m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400,
}

// lengthOf reads numbers with units.
func lengthOf(value string) (int64, bool) {
	if parts := threeParts.FindStringSubmatch(value); parts != nil {
		value = parts[1] + "h" + parts[2] + "m" + parts[3] + "s"
	}
	if period.MatchString(value) {
		value = value[len("pt"):]
	}
	if !withUnits.MatchString(value) {
		return 0, false
	}
	sum := 0.0
	for _, pair := range numberUnit.FindAllStringSubmatch(value, -1) {
		n, err := strconv.ParseFloat(pair[1], 64)
		unit := lengths[pair[2]]
		if unit == 0 && len(pair[2]) > 2 {
			unit = lengths[strings.TrimSuffix(pair[2], "s")]
		}
		if err != nil || unit == 0 {
			return 0, false
		}
		sum += n * unit
	}
	return wholeSeconds(sum), true
}

// dates are the forms of dates that the auditor knows. Each has a layout for the part in front of
// the zone, without the weekday.
var dates = []struct {
	form   *regexp.Regexp // with the weekday, the date and the zone
	layout string
}{
	{regexp.MustCompile(`^([A-Z][a-z]+, )([0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8})( .+)?$`), "02 Jan 2006 15:04:05"},
	{regexp.MustCompile(`^([A-Z][a-z]+, )([0-9]{2}-[A-Z][a-z]{2}-[0-9]{2} [0-9:]{8})( .+)?$`), "02-Jan-06 15:04:05"},
	{regexp.MustCompile(`^([A-Z][a-z]{2} )([A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4})()$`), "Jan _2 15:04:05 2006"},
	{regexp.MustCompile(`^([A-Z][a-z]{2} )([A-Z][a-z]{2} [0-9]{2} [0-9]{4} [0-9:]{8})( .+)?$`), "Jan 02 2006 15:04:05"},
	{regexp.MustCompile(`^()([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8})(.+)?$`), "2006-01-02 15:04:05"},
	{regexp.MustCompile(`^()([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8})(.+)?$`), "2006-01-02T15:04:05"},
}

// dateOf reads a date. A year of two digits is the latest one that is at most 50 years ahead of
// now.
func dateOf(text string, now time.Time) (time.Time, bool) {
	text = strings.Trim(text, " \t")
	leap := strings.Contains(text, ":60 ") || strings.HasSuffix(text, ":60")
	known := strings.Replace(text, ":60", ":59", 1) // package time knows no leap second
	for _, date := range dates {
		part := date.form.FindStringSubmatch(known)
		if part == nil || part[1] != "" && !isWeekday(strings.Trim(part[1], ", ")) {
			continue
		}
		at, err := time.Parse(date.layout, part[2])
		behind, ok := zoneOf(strings.TrimSpace(part[3]))
		if err != nil || !ok {
			return time.Time{}, false
		}
		later := at.AddDate(100, 0, 0)
		if strings.HasPrefix(date.layout, "02-Jan-06") && !later.After(now.AddDate(50, 0, 0)) {
			at = later
		}
		if leap {
			at = at.Add(time.Second)
		}
		return at.Add(behind), true
	}
	return time.Time{}, false
}

func isWeekday(word string) bool {
	_, short := time.Parse("Mon", word)
	_, long := time.Parse("Monday", word)
	return short == nil || long == nil
}

var offset = regexp.MustCompile(`^(?:GMT|UTC)?([+-][0-9]{2}):?([0-9]{2})$`)

// zoneOf returns by how much a zone is behind UTC.
func zoneOf(zone string) (behind time.Duration, ok bool) {
	switch zone {
	case "", "Z", "GMT", "UTC":
		return 0, true
	case "EDT":
		return 4 * time.Hour, true
	case "EST", "CDT":
		return 5 * time.Hour, true
	case "CST", "MDT":
		return 6 * time.Hour, true
	case "MST", "PDT":
		return 7 * time.Hour, true
	case "PST":
		return 8 * time.Hour, true
	}
	part := offset.FindStringSubmatch(zone)
	if part == nil {
		return 0, false
	}
	hours, _ := strconv.Atoi(part[1])
	minutes, _ := strconv.Atoi(part[1][:1] + part[2])
	return -time.Duration(hours)*time.Hour - time.Duration(minutes)*time.Minute, true
}
