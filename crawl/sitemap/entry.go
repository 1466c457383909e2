package sitemap

import (
	"strconv"
	"strings"
	"time"
)

// An Entry is a page in a sitemap, or a sitemap in an index. Use Stale to skip pages that haven't
// changed.
type Entry struct {
	// Loc is the URL, absolute, http or https. It is as the site wrote it, so it may have
	// characters that have to be escaped before they are shown. A URL that package net/url can't
	// parse, or reads otherwise than browsers do, is spelled so that it reads it as they do.
	Loc string

	// Index reports whether Loc is another sitemap, listed by an index, and no page.
	Index bool

	// LastMod is when the page was last modified, by the site's word. It is zero if not known, or
	// in an unknown form. A date that leaves the day, the month or the minute open is the beginning
	// of the time that it names. A time without a zone is read as UTC. A time in a zone whose
	// offset isn't known, such as "BST", is the earliest that it may be.
	LastMod time.Time

	// Precision is the length of the time that LastMod names. It is 24 hours for a date, and 0 for
	// a time by the second. A zone whose offset isn't known adds 26 hours.
	Precision time.Duration

	// ChangeFreq is how often the page changes, by the site's word, that is "always", "hourly",
	// "daily", "weekly", "monthly", "yearly", "never", or empty.
	ChangeFreq string

	// Priority compares the page to the others of its site, from 0 to 1. It is 0.5 if the sitemap
	// has none.
	Priority float64
}

// Stale reports whether a copy of the page that was fetched at the given time may be out of date
// now. This is so if LastMod is later than the fetch, or is a day that wasn't over. Without
// LastMod, it is so if more time has passed than ChangeFreq names. A page with neither may always
// be out of date. A LastMod in the future counts as none.
func (e Entry) Stale(fetched, now time.Time) bool {
	if !e.LastMod.IsZero() && !e.LastMod.After(now) {
		return e.LastMod.Add(e.Precision).After(fetched)
	}
	if every, ok := frequencies[e.ChangeFreq]; ok {
		return e.ChangeFreq != never && now.Sub(fetched) >= every
	}
	return true
}

const (
	day   = 24 * time.Hour
	never = "never"
)

var frequencies = map[string]time.Duration{
	"always": 0, "hourly": time.Hour, "daily": day, "weekly": 7 * day,
	"monthly": 30 * day, "yearly": 365 * day, never: 0,
}

// entry reads the fields of an item with the given URL.
func (it item) entry(loc string, index bool) Entry {
	e := Entry{Loc: loc, Index: index, Priority: 0.5}
	e.LastMod, e.Precision = parseTime(it.lastMod)
	changeFreq := strings.ToLower(strings.TrimSpace(it.changeFreq))
	if _, ok := frequencies[changeFreq]; ok {
		e.ChangeFreq = changeFreq
	}
	priority, err := strconv.ParseFloat(strings.TrimSpace(it.priority), 64)
	if err == nil && priority >= 0 && priority <= 1 {
		e.Priority = priority
	}
	return e
}
