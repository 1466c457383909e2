package sitemap

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Times in sitemaps and feeds have many forms: those of W3C's note
// (https://www.w3.org/TR/NOTE-datetime), of RFC 822, of xsd:date, and those that programs print.
// Nothing here depends on the time zone of the machine.

const (
	zoneText  = `(Z|z|[+-]\d.*|[A-Za-z(\[].*)?`
	clockText = `(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?(?:\s*([AaPp])\.?[Mm]\.?(?:\s|$))?`
)

// Forms of a time. The groups of the first four have the same order: year, month, day, hour,
// minute, second, its fraction, AM or PM, zone.
var (
	// Such as 2018, 2018-02, 2018-02-21T13:31:28.5+01:00 and 2018/2/5 1:31 PM UTC.
	isoForm = regexp.MustCompile(
		`^(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2})(?:(?:\s*[Tt]\s*|\s+)` + clockText + `)?)?)?\s*` + zoneText + `$`)
	// Such as 20180221 and 20180221T133128Z.
	basicForm = regexp.MustCompile(
		`^(\d{4})(\d{2})(\d{2})(?:[Tt\s]?(\d{2})(\d{2})(?:(\d{2})(?:[.,](\d{1,9})\d*)?)?())?\s*` + zoneText + `$`)

	// Such as Wed, 21 Feb 2018 13:31:28 EST; Wednesday, 21-Feb-18; 21 Feb 2018.
	dayFirst = regexp.MustCompile(
		`^(?:[A-Za-z]+\.?,?\s*)?(\d{1,2})[\s-]+([A-Za-z]{3,9})\.?,?[\s-]+(\d{4}|\d{2})` +
			`(?:,?\s+` + clockText + `)?\s*` + zoneText + `$`)
	// Such as Feb 21, 2018 1:31 PM; Wed Feb 21 2018 13:31:28 GMT+0100 (CET).
	monthFirst = regexp.MustCompile(
		`^(?:[A-Za-z]+\.?,?\s+)?([A-Za-z]{3,9})\.?\s+(\d{1,2}),?\s+(\d{4})` +
			`(?:,?\s+` + clockText + `)?\s*` + zoneText + `$`)
	// Such as Wed Feb 21 13:31:28 EST 2018, as C and Java print it.
	yearLast = regexp.MustCompile(
		`^(?:[A-Za-z]+\s+)?([A-Za-z]{3,9})\s+(\d{1,2})\s+` + clockText + `\s*([A-Za-z+-][A-Za-z0-9:+-]*)?\s+(\d{4})$`)

	// Seconds or milliseconds since 1970. The years before 2001 have fewer digits.
	unixForm = regexp.MustCompile(`^(\d{10})(\d{3})?(?:\.\d+)?$`)
)

// maxTimeText bounds the text of a time. The longest that programs print has some seventy
// characters.
const maxTimeText = 100

var commonForms = []struct {
	layout    string
	precision time.Duration
}{
	{"2006-01-02", day},
	{time.RFC3339, 0},
}

// Times in a zone whose offset isn't known may be those of any zone, UTC-12 to UTC+14.
const (
	earliestZone = 14 * time.Hour
	latestZone   = 12 * time.Hour
)

// parseTime reads a time. It returns the beginning of the time that s names, and how long that is.
// Of a time in a zone that isn't known this is the time in all zones. A time without a zone is read
// as UTC. The zero time stands for a text that is no time.
func parseTime(s string) (t time.Time, precision time.Duration) {
	s = strings.TrimSpace(s)
	if len(s) > maxTimeText {
		return time.Time{}, 0
	}
	for _, common := range commonForms { // before the forms that take longer to read
		t, err := time.Parse(common.layout, s)
		if err == nil {
			return t, common.precision
		}
	}
	written, ok := splitTime(s)
	if !ok {
		return time.Time{}, 0
	}
	return written.time()
}

// splitTime finds the parts of a time.
func splitTime(s string) (written writtenTime, ok bool) {
	if m := unixForm.FindStringSubmatch(s); m != nil {
		return writtenTime{unix: m[1], milliseconds: m[2]}, true
	}
	for _, form := range []*regexp.Regexp{isoForm, basicForm} {
		if m := form.FindStringSubmatch(s); m != nil {
			return writtenTime{year: m[1], month: m[2], day: m[3], clock: m[4:9], zone: m[9]}, true
		}
	}
	if m := dayFirst.FindStringSubmatch(s); m != nil {
		return writtenTime{year: m[3], month: m[2], day: m[1], clock: m[4:9], zone: m[9]}, true
	}
	if m := monthFirst.FindStringSubmatch(s); m != nil {
		return writtenTime{year: m[3], month: m[1], day: m[2], clock: m[4:9], zone: m[9]}, true
	}
	if m := yearLast.FindStringSubmatch(s); m != nil {
		return writtenTime{year: m[9], month: m[1], day: m[2], clock: m[3:8], zone: m[8]}, true
	}
	return writtenTime{}, false
}

// A writtenTime is a time in its parts, as they are written. Those that aren't written are empty.
type writtenTime struct {
	unix, milliseconds string // instead of all others

	year, month, day string   // the month is a number or a name
	clock            []string // hour, minute, second, its fraction, "a" or "p"
	zone             string
}

// time returns the time that w names, see parseTime.
func (w writtenTime) time() (t time.Time, precision time.Duration) {
	if w.unix != "" {
		return time.Unix(number(w.unix), number(w.milliseconds)*int64(time.Millisecond)).UTC(), 0
	}
	year := int(number(w.year))
	if len(w.year) == 2 { // RFC 5322, section 4.3
		year += 1900
		if year < 1950 {
			year += 100
		}
	}
	month, day := 1, 1
	if w.month != "" {
		month = monthNumber(w.month)
	}
	if w.day != "" {
		day = int(number(w.day))
	}
	t = time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Year() != year || t.Month() != time.Month(month) || t.Day() != day {
		return time.Time{}, 0 // such as the 30th of February
	}
	end := t.AddDate(0, 0, 1)
	switch {
	case w.month == "":
		end = t.AddDate(1, 0, 0)
	case w.day == "":
		end = t.AddDate(0, 1, 0)
	case w.clock[0] != "":
		sinceMidnight, clockPrecision, ok := clockTime(w.clock)
		if !ok {
			return time.Time{}, 0
		}
		t = t.Add(sinceMidnight)
		end = t.Add(clockPrecision)
	}
	precision = end.Sub(t)
	offset, isKnown, ok := parseZone(w.zone)
	switch {
	case !ok:
		return time.Time{}, 0
	case !isKnown:
		return t.Add(-earliestZone), precision + earliestZone + latestZone
	}
	return t.Add(-offset), precision
}

// number returns the value of decimal digits; 0 if there are none.
func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// monthNumber returns the number of a month, whose name may be shortened; 0: it is none.
func monthNumber(text string) int {
	if text[0] <= '9' {
		return int(number(text))
	}
	text = strings.ToLower(text)
	for month := time.January; month <= time.December; month++ {
		if strings.HasPrefix(strings.ToLower(month.String()), text) {
			return int(month)
		}
	}
	if text == "sept" {
		return int(time.September)
	}
	return 0
}

// clockTime returns the time since midnight of a clock, see writtenTime, and how long the time is
// that it names.
func clockTime(clock []string) (sinceMidnight, precision time.Duration, ok bool) {
	hour := number(clock[0])
	minute := number(clock[1])
	second := number(clock[2])
	half := strings.ToLower(clock[4])
	if half != "" {
		if hour < 1 || hour > 12 {
			return 0, 0, false
		}
		hour %= 12
		if half == "p" {
			hour += 12
		}
	}
	isMidnight := hour == 24 && minute == 0 && second == 0 // at the end of the day (ISO 8601)
	if hour > 23 && !isMidnight || minute > 59 || second > 60 {
		return 0, 0, false
	}
	fraction := number((clock[3] + "000000000")[:9]) // in nanoseconds
	sinceMidnight = time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute +
		time.Duration(second)*time.Second + time.Duration(fraction)
	if clock[2] == "" {
		precision = time.Minute
	}
	return sinceMidnight, precision, true
}

var (
	zoneForm = regexp.MustCompile(`^([A-Za-z/_]*)\s*(?:([+-])(?:(\d{2}):?(\d{2})|(\d{1,2})))?\s*([A-Za-z]*)$`)
	// Such as "(CET)" and "[Europe/Berlin]", of which the offset in front is known.
	zoneComment = regexp.MustCompile(`\s*(?:\([^()]*\)|\[[^\[\]]*\])$`)
)

// parseZone returns how far a zone is ahead of UTC. isKnown is false for a name that has no one
// meaning. ok is false for a text that is no zone.
func parseZone(zone string) (offset time.Duration, isKnown, ok bool) {
	text := zoneComment.ReplaceAllString(zone, "")
	m := zoneForm.FindStringSubmatch(text)
	switch {
	case zone == "":
		return 0, true, true
	case m == nil:
		return 0, false, false
	case text == "": // a comment alone
		return 0, false, true
	case m[2] == "": // a name
		hours, isKnown := zones[strings.ToUpper(m[1])]
		return time.Duration(hours * float64(time.Hour)), isKnown && m[6] == "", true
	}
	hours := number(m[3] + m[5])
	minutes := number(m[4])
	if hours > 14 || minutes > 59 {
		return 0, false, false
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if m[2] == "-" {
		offset = -offset
	}
	return offset, true, true
}

// zones are the names of zones that have one meaning, with their hours ahead of UTC: those of RFC
// 822, section 5.1, with the meaning that it gives them (but for the letters of the military, see
// RFC 5322, section 4.3), and others. BST and IST, for example, are two zones or more.
var zones = map[string]float64{
	"Z": 0, "UT": 0, "UTC": 0, "GMT": 0,
	"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,

	"HST": -10, "AKST": -9, "AKDT": -8, "NST": -3.5, "NDT": -2.5, "BRT": -3,
	"WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2, "EEST": 3,
	"MSK": 3, "MSD": 4, "CAT": 2, "SAST": 2, "EAT": 3, "WAT": 1, "PKT": 5, "NPT": 5.75,
	"WIB": 7, "ICT": 7, "HKT": 8, "SGT": 8, "JST": 9, "KST": 9,
	"AWST": 8, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
}
