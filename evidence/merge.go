package evidence

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// Merge writes the records of several logs to w as one log, in the order of their
// times, for Audit to prove what a fleet did together: crawlers that share a
// limiter and a budget keep their promises together, and no single log shows it.
// Each reader holds one log: the logs of a crawler that was started again would be
// proved as one, against a budget that began anew.
// Trips are numbered anew, so that those of different logs stay apart. The result
// proves as much as the machines' clocks agree. It is numbered by w's own lines and
// not chained: keep the single logs, if they are. Memory doesn't grow with the logs.
// The error names the log, from 1, and the line that can't be read, or is w's.
func Merge(w io.Writer, logs ...io.Reader) error {
	sources := make([]*source, 0, len(logs))
	for i, r := range logs {
		s := &source{number: i + 1, in: bufio.NewReaderSize(r, 64<<10)}
		if err := s.next(); err != nil {
			return err
		}
		sources = append(sources, s)
	}
	out := JSONLines(w)
	for {
		var first *source
		for _, s := range sources {
			if !s.over && (first == nil || s.head.Time.Before(first.head.Time)) {
				first = s
			}
		}
		if first == nil {
			return out.Close()
		}
		d := first.head
		if d.Trip != 0 {
			d.Trip = d.Trip*uint64(len(sources)) + uint64(first.number-1)
		}
		out.Record(context.Background(), d)
		if err := first.next(); err != nil {
			return errors.Join(err, out.Close())
		}
	}
}

// A source is a log that is being merged.
type source struct {
	number int
	in     *bufio.Reader
	buf    []byte
	line   int
	head   Decision // the next record
	over   bool
}

// next reads the next record. Seals of chains end with their own logs.
func (s *source) next() error {
	for {
		text, err := readLine(s.in, &s.buf)
		if len(text) > 0 {
			s.line++
		}
		if len(bytes.TrimSpace(text)) > 0 {
			s.head = Decision{}
			if bad := s.head.UnmarshalJSON(text); bad != nil {
				return fmt.Errorf("evidence: log %d, line %d: %w", s.number, s.line, bad)
			}
			if s.head.Type != LogClosed {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			s.over = true
			return nil
		case err != nil:
			return fmt.Errorf("evidence: log %d, after line %d: %w", s.number, s.line, err)
		}
	}
}
