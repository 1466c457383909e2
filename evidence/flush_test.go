package evidence_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
)

// TestFlushWaitsForAWriteUnderWay, however many call it meanwhile.
func TestFlushWaitsForAWriteUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := evidence.JSONLines(writerFunc(func(b []byte) (int, error) {
			time.Sleep(time.Hour)
			return out.Write(b)
		}))
		var wg sync.WaitGroup
		wg.Go(func() { // which has to write
			log.Record(t.Context(), evidence.Decision{Type: evidence.RobotsFetched, Text: strings.Repeat("x", 64<<10)})
		})
		synctest.Wait()
		log.Record(t.Context(), evidence.Decision{Type: evidence.Retried})
		for range 3 {
			wg.Go(func() {
				if err := log.Flush(); err != nil {
					t.Error(err)
				}
				if n := bytes.Count(out.Bytes(), []byte("\n")); n != 2 {
					t.Errorf("%d lines after Flush", n)
				}
			})
		}
		wg.Wait()
	})
}
