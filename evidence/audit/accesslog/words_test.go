package accesslog_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// moment is so many seconds after the beginning of a test's crawl.
func moment(seconds string) time.Time {
	d, err := time.ParseDuration(seconds + "s")
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC).Add(d)
}

// write returns the log that text tells of: when a record was made, in seconds, what it is, the number
// of its trip, and what else it says.
//
//	0   start 1 url=/x agent=TestBot
//	0.2 end 1 bytes=7
//
// An end repeats what its start says, and says 200 and 100 bytes where the line doesn't.
func write(t *testing.T, text string) string {
	t.Helper()
	var out []byte
	starts := map[string]evidence.Decision{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		at, verb, trip := moment(words[0]), words[1], ""
		words = words[2:]
		if len(words) > 0 && !strings.Contains(words[0], "=") {
			trip, words = words[0], words[1:]
		}
		d := starts[trip]
		d.Time, d.Allowed, d.Attempt, d.Host, d.Transport = at, true, 1, "a.example", "T"
		switch verb {
		case "start":
			d.Type, d.Start, d.Seq, d.URL = evidence.Started, at, uint64(len(starts)+1), "/"+trip
			d.Trip, _ = strconv.ParseUint(trip, 10, 64)
		case "end":
			d.Type, d.Status, d.Bytes = evidence.Fetched, 200, 100
		case "fail":
			d.Type, d.Allowed = evidence.Failed, false
		default:
			d.Type = evidence.Type(verb)
		}
		if verb == "end" || verb == "fail" {
			d.Duration = at.Sub(d.Start)
		}
		for _, w := range words {
			switch name, value, _ := strings.Cut(w, "="); name {
			case "url":
				d.URL = value
			case "host":
				d.Host = value
			case "agent":
				d.Agent = value
			case "method":
				d.Method = value
			case "status":
				d.Status, _ = strconv.Atoi(value)
			case "bytes":
				d.Bytes, _ = strconv.ParseInt(value, 10, 64)
			case "timestamp":
				d.Time = time.Time{}
			default:
				t.Fatal(line)
			}
		}
		if strings.HasPrefix(d.URL, "/") {
			d.URL = "https://" + d.Host + d.URL
		}
		if verb == "start" {
			starts[trip] = d
		}
		out = fmt.Appendf(out, "%s\n", d.AppendJSON(nil))
	}
	return string(out)
}
