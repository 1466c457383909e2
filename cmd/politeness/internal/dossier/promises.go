package dossier

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-politeness/politeness/evidence/audit"
)

// A Kept is a promise in the words of a site's owner, and how far it was kept.
type Kept struct {
	Promise string
	Result  string   // "kept, 38 of 38"
	Class   string   // of page.css: yes, no or soft
	Open    []string // why it isn't proved
}

// Kept returns the promises that the records put to the test. A promise that had nothing to keep
// says nothing to the owner.
func (d *Dossier) Kept() []Kept {
	var kept []Kept
	for _, p := range d.Report.Promises {
		if p.Proved+p.Open+p.Broken == 0 {
			continue
		}
		kept = append(kept, d.kept(p))
	}
	return kept
}

// othersLeftOut is why audit.CheckSite leaves open that a log is whole.
const othersLeftOut = "only the records of some hosts were judged"

func (d *Dossier) kept(p audit.Promise) Kept {
	k := Kept{Promise: d.promise(p), Open: p.Why}
	all := p.Proved + p.Open + p.Broken
	switch {
	case p.Broken > 0:
		k.Result = fmt.Sprintf("broken, %d of %d", p.Broken, all)
		k.Class = "no"
	case slices.Equal(p.Why, []string{othersLeftOut}):
		k.Result = "not shown by this page"
		k.Class = "soft"
		k.Open = []string{"this page has only the requests to your site. Ask me for their bundle, which proves it"}
	case p.Open > 0:
		k.Result = fmt.Sprintf("not all is proved, %d of %d", p.Proved, all)
		k.Class = "soft"
	default:
		k.Result = fmt.Sprintf("kept, %d of %d", p.Proved, all)
		k.Class = "yes"
	}
	return k
}

// promise returns p in words for the owner of a site. A promise of which it knows no other words
// keeps those of the judge.
func (d *Dossier) promise(p audit.Promise) string {
	switch p.Name {
	case "delays kept":
		return "I wait between two requests, longer if your robots.txt asks for it"
	case "slots kept":
		return d.atOnce()
	case "sites kept":
		return "I send few requests at the same time to all your names and ports together"
	case "blocks kept":
		return "I stay away when you refuse me, for as long as you ask"
	case "allowed by robots.txt":
		return "I fetch only what your robots.txt allows"
	case "verdicts right":
		return "I read your robots.txt as its standard reads it"
	case "reservations kept":
		return "I leave alone what you reserve"
	case "budget kept":
		return "I fetch no more pages than I announced"
	case "every start ended":
		return "I give back each connection"
	case "times agree with the servers'":
		return "My times agree with those of your server"
	case "log whole":
		return "Nothing is left out of my log"
	}
	return p.Name
}

// atOnce returns the promise on requests at one time.
func (d *Dossier) atOnce() string {
	switch d.Slots {
	case 0: // the records don't say it
		return "I have no more requests under way than I announced"
	case 1:
		return "I never have more than one request under way"
	}
	return fmt.Sprintf("I never have more than %d requests under way", d.Slots)
}

// Nothing returns a sentence on those things of which the records have nothing, "" if they have
// something of each.
func (d *Dossier) Nothing() string {
	var nothing []string
	if len(d.Refused) == 0 {
		nothing = append(nothing, "no rule kept me from a page")
	}
	if len(d.Preferences) == 0 {
		nothing = append(nothing, "I found no statement about the use of your pages")
	}
	if len(d.Blocks) == 0 {
		nothing = append(nothing, "you never asked to be left alone")
	}
	if len(nothing) == 0 {
		return ""
	}
	return "In this time " + strings.Join(nothing, ", and ") + "."
}
