// Package sentence formats for people why a request waits.
package sentence

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// A Wait has the fields of a hostlimit.Wait that name its reason.
type Wait struct {
	Hold, Cause        string
	Delay              time.Duration
	Ahead, Slots, Held int
	HeldBy             string
	HeldFor            time.Duration
}

// String returns what the wait is for, in a sentence for people, without the key.
func (w Wait) String() string {
	var s string
	switch w.Hold {
	case "block":
		s = "blocked (" + w.Cause + ")"
	case "probe":
		s = "the first request after a block has no answer yet" + w.longest()
	case "slot":
		s = fmt.Sprintf("%d of %d slots are held%s", w.Held, w.Slots, w.longest())
	case "place":
		s = "every place of MaxInFlight is taken by requests to other hosts"
	case "delay":
		s = w.Cause
		switch s {
		case "crawl-delay":
		case "random": // as configured: a fixed one is drawn from a range, too
			s = "delay"
		default:
			s = strings.TrimSpace(s + " delay")
		}
		s += " of " + roughly(w.Delay)
	}
	switch w.Ahead {
	case 0:
	case 1:
		s += ", 1 request ahead"
	default:
		s += fmt.Sprintf(", %d requests ahead", w.Ahead)
	}
	return s
}

// longest returns the part of String about the request that has held a slot the longest.
func (w Wait) longest() string {
	if w.HeldFor == 0 {
		return ""
	}
	return fmt.Sprintf(", one for %s by %s", roughly(w.HeldFor), cmp.Or(w.HeldBy, "a request"))
}

// roughly is d with two digits or so.
func roughly(d time.Duration) string {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
