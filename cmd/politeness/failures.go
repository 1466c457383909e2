package main

import (
	"errors"
	"os"
	"time"

	"github.com/go-politeness/politeness/crawl"
)

// A failure is what crawl -failed writes for each URL that wasn't visited.
type failure struct {
	URL     string        `json:"url"`
	Time    time.Time     `json:"time"`
	Outcome crawl.Outcome `json:"outcome"`
	Status  int           `json:"status,omitempty"` // of the last answer
	Error   string        `json:"error,omitempty"`
	Why     string        `json:"why,omitempty"`  // it was postponed, see -traps
	From    string        `json:"from,omitempty"` // page with the link to it
	Via     string        `json:"via,omitempty"`  // URL that redirects to it
	Depth   int           `json:"depth"`
}

// failures writes a line for each URL that wasn't visited.
type failures struct {
	lineWriter
	file *os.File
	next bool // what is left waits in -state for the next run
}

func openFailures(name string, next bool) (*failures, error) {
	file, err := openLines(name)
	if err != nil {
		return nil, err
	}
	return &failures{lineWriter: lineWriter{out: file}, file: file, next: next}, nil
}

// done is a Config.Done. The target of a redirect has a separate result, and so has the canonical
// URL of a page.
func (f *failures) done(r crawl.Result) {
	switch r.Outcome {
	case crawl.Visited, crawl.Redirected, crawl.NotCanonical:
		return
	case crawl.Left:
		if f.next && !isRefusedByRule(r.Err) { // such a URL doesn't wait, see frontier.Done
			return
		}
	}
	line := failure{
		URL:     r.URL,
		Time:    time.Now().UTC(),
		Outcome: r.Outcome,
		Status:  r.Status,
		Why:     r.Why,
		From:    r.From,
		Via:     r.Via,
		Depth:   r.Depth,
	}
	if r.Err != nil {
		line.Error = r.Err.Error()
	}
	_ = f.write(line) // close returns the error
}

// close returns the error by which lines are lost, if any.
func (f *failures) close() error {
	return errors.Join(f.lost(), f.file.Close())
}
