package backoff

import (
	"strconv"
	"strings"
	"time"
)

// moment reads a date with a time: the three forms of RFC 9110, section 5.6.7, those of RFC 5322,
// of ISO 8601, of JavaScript and of the command date. The zone may be a name, an offset or missing,
// and is UTC if it isn't known. Two digits of a year are those of the latest date that is at most
// 50 years after now.
func moment(text string, now time.Time) (time.Time, bool) {
	if len(text) > longestField {
		return time.Time{}, false
	}
	text = strings.ToLower(strings.TrimSpace(text))
	text, ahead := cutOffset(text)
	var d date
	d.readISO(&text)
	for _, word := range strings.FieldsFunc(text, endsWord) {
		if !d.read(word) {
			return time.Time{}, false
		}
	}
	at, ok := d.time(now)
	return at.Add(-ahead - d.zone), ok
}

// endsWord reports whether c stands between the words of a date.
func endsWord(c rune) bool { return c == ' ' || c == '\t' || c == ',' || c == '-' }

// cutOffset takes an offset such as "+0100", "+01:00" or "-05" away from the end of a date with a
// time, and returns by how much the zone is ahead of UTC.
func cutOffset(text string) (rest string, ahead time.Duration) {
	sign := strings.LastIndexAny(text, "+-")
	if sign < 0 || !strings.Contains(text[:sign], ":") { // without a time "-2026" is a year
		return text, 0
	}
	digits := strings.Replace(text[sign+1:], ":", "", 1)
	if len(digits) == 2 {
		digits += "00"
	}
	if len(digits) != 4 || !isDigits(digits) {
		return text, 0
	}
	hours, _ := strconv.Atoi(digits[:2])
	minutes, _ := strconv.Atoi(digits[2:])
	ahead = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[sign] == '-' {
		ahead = -ahead
	}
	return text[:sign], ahead
}

// A date is collected word by word. A part that hasn't come is 0, and the time isn't there before
// hasTime is set.
type date struct {
	year, day  int
	yearDigits int
	month      time.Month
	clock      time.Duration // since midnight
	hasTime    bool
	zone       time.Duration // by how much it is ahead of UTC
}

// readISO takes "2026-11-28T" or "20261128T" from the beginning of text. The "T" may be a space.
func (d *date) readISO(text *string) {
	for _, layout := range [...]string{"2006-01-02", "20060102"} {
		if len(*text) <= len(layout) {
			continue
		}
		day, err := time.Parse(layout, (*text)[:len(layout)])
		next := (*text)[len(layout)]
		if err != nil || next != 't' && next != ' ' {
			continue
		}
		d.year = day.Year()
		d.yearDigits = 4
		d.month = day.Month()
		d.day = day.Day()
		*text = (*text)[len(layout)+1:]
		return
	}
}

// read takes a word, in lower case. It reports false if the word can be no part of a date.
func (d *date) read(word string) bool {
	bare := strings.TrimSuffix(word, "z")
	switch {
	case strings.Contains(word, ":"):
		return d.readTime(bare)
	case isDigits(word) && len(word) <= 2 && d.day == 0:
		d.day, _ = strconv.Atoi(word)
		return d.day > 0
	case isDigits(word) && (len(word) == 2 || len(word) == 4) && d.yearDigits == 0:
		d.year, _ = strconv.Atoi(word)
		d.yearDigits = len(word)
		return true
	case len(bare) == 6 && isDigits(bare): // ISO 8601 without colons
		return d.readTime(bare[:2] + ":" + bare[2:4] + ":" + bare[4:])
	case word == "am" || word == "pm":
		return d.readHalf(word)
	case isWeekday(word):
		return true
	case d.month == 0 && months[clip(word, 3)] != 0:
		d.month = months[clip(word, 3)]
		return true
	}
	d.zone = zones[word]
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" // a zone that isn't known is UTC
}

// readTime takes "08:49", "08:49:37" or "08:49:37.123". A second 60, which
// RFC 9110 allows and package time doesn't know, is the one after 59.
func (d *date) readTime(word string) bool {
	leap := time.Duration(0)
	if i := strings.LastIndexByte(word, ':'); strings.Count(word, ":") == 2 && strings.HasPrefix(word[i:], ":60") {
		word = word[:i] + ":59" + word[i+len(":60"):]
		leap = time.Second
	}
	for _, layout := range [...]string{"15:04:05", "15:04"} {
		at, err := time.Parse(layout, word)
		if err == nil && !d.hasTime {
			midnight := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
			d.clock = at.Sub(midnight) + leap
			d.hasTime = true
			return true
		}
	}
	return false
}

// readHalf takes the half of the day behind a time of 12 hours.
func (d *date) readHalf(word string) bool {
	twelve := d.clock >= 12*time.Hour
	switch {
	case word == "pm" && !twelve:
		d.clock += 12 * time.Hour
	case word == "am" && twelve:
		d.clock -= 12 * time.Hour
	}
	return d.hasTime
}

// time returns the date, and whether it is complete and a day of the calendar.
func (d *date) time(now time.Time) (time.Time, bool) {
	complete := d.hasTime && d.day > 0 && d.month > 0 && d.yearDigits > 0
	if !complete {
		return time.Time{}, false
	}
	year := d.year
	if d.yearDigits == 2 {
		year += now.Year()/100*100 + 100
		for time.Date(year, d.month, d.day, 0, 0, 0, 0, time.UTC).After(now.AddDate(50, 0, 0)) {
			year -= 100
		}
	}
	midnight := time.Date(year, d.month, d.day, 0, 0, 0, 0, time.UTC)
	return midnight.Add(d.clock), midnight.Day() == d.day
}

// clip returns the first n bytes of s, or s if it is shorter.
func clip(s string, n int) string { return s[:min(n, len(s))] }

// isWeekday reports whether word is the name of a weekday, in any case, or an abbreviation of one.
func isWeekday(word string) bool {
	for day := time.Sunday; day <= time.Saturday; day++ {
		name := day.String()
		if len(word) >= 3 && len(word) <= len(name) && strings.EqualFold(name[:len(word)], word) {
			return true
		}
	}
	return false
}

// months are the months by the first three letters of their names.
var months = map[string]time.Month{
	"jan": time.January, "feb": time.February, "mar": time.March, "apr": time.April,
	"may": time.May, "jun": time.June, "jul": time.July, "aug": time.August,
	"sep": time.September, "oct": time.October, "nov": time.November, "dec": time.December,
}

// zones are the names of zones other than UTC that RFC 5322, section 4.3, defines.
var zones = map[string]time.Duration{
	"edt": -4 * time.Hour,
	"est": -5 * time.Hour, "cdt": -5 * time.Hour,
	"cst": -6 * time.Hour, "mdt": -6 * time.Hour,
	"mst": -7 * time.Hour, "pdt": -7 * time.Hour,
	"pst": -8 * time.Hour,
}
