package evidence

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestFlushWaitsForAWriteUnderWay(t *testing.T) {
	var out bytes.Buffer
	began, goOn := make(chan struct{}), make(chan struct{})
	first := true
	log := JSONLines(writerFunc(func(b []byte) (int, error) {
		if first {
			first = false
			close(began)
			<-goOn
		}
		return out.Write(b)
	}))
	done := make(chan error)
	big := Decision{Type: RobotsFetched, Text: strings.Repeat("x", flushBytes)}
	go func() { log.Record(context.Background(), big); done <- nil }() // writes
	<-began
	log.Record(context.Background(), Decision{Type: Retried})
	go func() { done <- log.Flush() }()
	close(goOn)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 2 {
		t.Errorf("%d lines after Flush", n)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
