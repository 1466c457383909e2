package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-politeness/politeness/evidence"
	"github.com/go-politeness/politeness/internal/logtest"
)

// disk is a writer with room for some bytes, and none after that.
type disk struct {
	bytes.Buffer
	room int
}

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

// numbers returns "n" of each line of log, and fails if a line is no record.
func numbers(t *testing.T, log []byte) []int {
	t.Helper()
	var out []int
	for text := range bytes.Lines(log) {
		var l struct{ N int }
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("line %d: %v: %s", len(out)+1, err, text)
		}
		out = append(out, l.N)
	}
	return out
}

func record(e evidence.Evidence, n int) {
	for i := range n {
		d := started
		d.Trip = uint64(i + 1)
		e.Record(context.Background(), d)
	}
}

func TestJSONLinesKeepsOrderAndLosesNothingOnClose(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { record(log, 1000) })
	}
	wg.Wait()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	got := numbers(t, out.Bytes())
	if len(got) != 8000 {
		t.Fatalf("%d lines of 8000", len(got))
	}
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("line %d has number %d", i+1, n)
		}
	}
	if err := log.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestJSONLinesDecodesToTheSameDecision(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	want := full(t)
	log.Record(t.Context(), want)
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	var got evidence.Decision
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestJSONLinesFullDiskIsAClearErrorAndHarmsNobody(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true, Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}}} {
		d := &disk{room: 100_000}
		log := logtest.New(t, d, cfg)
		record(log, 1000) // about 280 KB
		if err := log.Err(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Err: %v", err)
		}
		err := log.Close()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Close: %v", err)
		}
		if lost, whole := lostOf(t, err), bytes.Count(d.Bytes(), []byte("\n")); lost+whole != 1000 {
			t.Errorf("%d of 1000 records are said to be lost, %d are there", lost, whole)
		}
		if err2 := log.Err(); err2 == nil || err2.Error() != err.Error() {
			t.Errorf("Err after Close: %v", err2)
		}
	}
}

func TestJSONLinesLosesNothingWhenTheDiskHasRoomAgain(t *testing.T) {
	d := &disk{room: 100_000}
	log := evidence.JSONLines(d)
	record(log, 1000)
	if log.Err() == nil {
		t.Fatal("the disk was not full")
	}
	d.room = 1 << 30
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(numbers(t, d.Bytes())); n != 1000 {
		t.Errorf("%d lines of 1000", n)
	}
}

func TestJSONLinesBoundsWhatItHoldsBack(t *testing.T) {
	d := &disk{}
	log := evidence.JSONLines(d)
	big := evidence.Decision{Type: evidence.RobotsFetched, Text: strings.Repeat("x", 1<<20)}
	for range 40 {
		log.Record(t.Context(), big)
	}
	d.room = 1 << 30
	_ = log.Flush()
	log.Record(t.Context(), started)
	err := log.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close: %v", err)
	}
	// What was dropped is missing from the numbers, so that an auditor sees it.
	lost := lostOf(t, err)
	if got := numbers(t, d.Bytes()); lost < 10 || len(got)+lost != 41 || got[len(got)-1] != 41 {
		t.Errorf("%d lost of 41; written %v", lost, got)
	}
}

// TestJSONLinesDropsRecordsOnlyWhen16MiBAreWaiting, to the byte.
func TestJSONLinesDropsRecordsOnlyWhen16MiBAreWaiting(t *testing.T) {
	const full = 16 << 20
	big := evidence.Decision{Type: evidence.RobotsFetched, Text: strings.Repeat("x", 1<<20)}
	last := evidence.Decision{Type: evidence.RobotsFetched, Text: "x"}
	var lines bytes.Buffer
	log := evidence.JSONLines(&lines)
	for range 15 {
		log.Record(t.Context(), big)
	}
	log.Record(t.Context(), last)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for waiting, lost := range map[int]int{full - 1: 0, full: 1} {
		d := &disk{}
		log := evidence.JSONLines(d)
		for range 15 {
			log.Record(t.Context(), big)
		}
		last := last
		last.Text = strings.Repeat("x", 1+waiting-lines.Len())
		log.Record(t.Context(), last)
		log.Record(t.Context(), started)
		d.room = 1 << 30
		if err := log.Close(); (err != nil) != (lost > 0) || err != nil && lostOf(t, err) != lost {
			t.Errorf("with %d bytes waiting: %v", waiting, err)
		}
	}
}

// lostOf returns how many records an error says are lost.
func lostOf(t *testing.T, err error) (lost int) {
	t.Helper()
	if _, scanErr := fmt.Sscanf(fmt.Sprint(err), "evidence: %d records lost", &lost); scanErr != nil {
		t.Errorf("%v: %v", err, scanErr)
	}
	return lost
}

// TestChainedHashesEveryEighthLine, from the first on, and the last.
func TestChainedHashesEveryEighthLine(t *testing.T) {
	var out bytes.Buffer
	log := logtest.New(t, &out, evidence.LogConfig{Chained: true})
	record(log, 20)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var hashed []int
	for i, line := range bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n")) {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			t.Fatal(err)
		}
		if e.Hash != "" {
			hashed = append(hashed, i+1)
		}
	}
	if !slices.Equal(hashed, []int{1, 9, 17, 21}) {
		t.Errorf("lines %v have a hash", hashed)
	}
}

// TestJSONLinesAsksAFailingWriterNowAndThen: as often as one that works, and not with each record.
func TestJSONLinesAsksAFailingWriterNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no second goes by
		asked, held := 0, 0
		log := evidence.JSONLines(writerFunc(func(b []byte) (int, error) {
			asked++
			held = len(b)
			return 0, syscall.ENOSPC
		}))
		record(log, 2000) // about 560 KB
		if want := held >> 16; asked != want || want < 7 {
			t.Errorf("asked %d times for %d bytes, want %d", asked, held, want)
		}
	})
}

func TestJSONLinesHoldsBackLessThan64KiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := evidence.Decision{Type: evidence.RobotsFetched, Text: "x"}
		var line bytes.Buffer
		log := evidence.JSONLines(&line)
		log.Record(t.Context(), d)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		for _, length := range []int{64<<10 - 1, 64 << 10} {
			d.Text = strings.Repeat("x", length-line.Len()+1)
			var out bytes.Buffer
			evidence.JSONLines(&out).Record(t.Context(), d)
			if want := length &^ (64<<10 - 1); out.Len() != want {
				t.Errorf("of a line of %d bytes %d are written, want %d", length, out.Len(), want)
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestJSONLinesSurvivesBadWriters(t *testing.T) {
	for name, w := range map[string]writerFunc{
		"panics":        func([]byte) (int, error) { panic("boom") },
		"writes short":  func(b []byte) (int, error) { return len(b) / 2, nil },
		"counts wrong":  func(b []byte) (int, error) { return len(b) + 1, nil },
		"counts below":  func([]byte) (int, error) { return -1, nil },
		"fails at once": func([]byte) (int, error) { return 0, io.ErrClosedPipe },
		"writes none":   func([]byte) (int, error) { return 0, nil },
	} {
		log := evidence.JSONLines(w)
		record(log, 1000)
		err := log.Close()
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if short := name == "writes short" || name == "writes none"; errors.Is(err, io.ErrShortWrite) != short {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJSONLinesSlowWriterDelaysOneRecordOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := evidence.JSONLines(writerFunc(func(b []byte) (int, error) {
			time.Sleep(time.Hour)
			return out.Write(b)
		}))
		begin := time.Now()
		var waits []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					at := time.Now()
					log.Record(t.Context(), started)
					if d := time.Since(at); d > 0 {
						mu.Lock()
						waits = append(waits, d)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if len(waits) == 0 {
			t.Fatal("nobody has written")
		}
		// At any time only the goroutine that writes waits.
		if total := time.Since(begin); total < time.Duration(len(waits))*time.Hour {
			t.Errorf("%d records waited within %v", len(waits), total)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(numbers(t, out.Bytes())); n != 1600 {
			t.Errorf("%d lines of 1600", n)
		}
	})
}

func TestJSONLinesWritesWhatIsASecondOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := evidence.JSONLines(&out)
		record(log, 1)
		if out.Len() > 0 {
			t.Fatal("the first record was not held back")
		}
		time.Sleep(time.Second)
		record(log, 1)
		if n := len(numbers(t, out.Bytes())); n != 2 {
			t.Errorf("%d lines written", n)
		}
	})
}

func TestJSONLinesAfterClose(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	record(log, 2)
	if err := log.Err(); err == nil || !strings.Contains(err.Error(), "2 records lost") {
		t.Errorf("Err: %v", err)
	}
	if out.Len() > 0 {
		t.Errorf("written: %s", &out)
	}
}

func TestSecondCloseIsTheSameAsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := evidence.JSONLines(writerFunc(func([]byte) (int, error) {
			time.Sleep(time.Second)
			return 0, syscall.ENOSPC
		}))
		record(log, 1)
		var errs [3]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = log.Close() })
		}
		wg.Wait()
		for i, err := range errs {
			if !errors.Is(err, syscall.ENOSPC) || fmt.Sprint(err) != fmt.Sprint(errs[0]) {
				t.Errorf("Close %d: %v", i, err)
			}
		}
	})
}

func TestJSONLinesRemovesUserinfo(t *testing.T) {
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	log.Record(t.Context(), evidence.Decision{
		URL: "https://user:hunter2@h/", Location: "//hunter2@h/", Err: `Get "http://a:hunter2@h/": EOF`, Reason: "see ftp://hunter2@h",
	})
	log.Record(t.Context(), evidence.Decision{URL: "@https://user:hunter2@h/"})
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "hunter2") {
		t.Error(out.String())
	}
}

func TestFlushOfNothingWritesNothing(t *testing.T) {
	log := evidence.JSONLines(writerFunc(func(b []byte) (int, error) {
		t.Errorf("%d bytes written", len(b))
		return len(b), nil
	}))
	if err := errors.Join(log.Flush(), log.Close()); err != nil {
		t.Error(err)
	}
}

func TestJSONLinesDoesNotAllocatePerRecord(t *testing.T) {
	for _, cfg := range []evidence.LogConfig{{}, {Chained: true}} {
		log := logtest.New(t, io.Discard, cfg)
		record(log, 1000) // both buffers have grown
		if n := testing.AllocsPerRun(10, func() { record(log, 1000) }); n > 0 {
			t.Errorf("%v allocations of 1000 records of %+v", n, cfg)
		}
	}
}

func TestJSONLinesTimesStaySpacedAsTheyWere(t *testing.T) {
	// Times that carry a monotonic reading keep their distances; those without come through as they are.
	var out bytes.Buffer
	log := evidence.JSONLines(&out)
	a := time.Now()
	b := a.Add(1500 * time.Millisecond)
	for _, at := range []time.Time{a, b} {
		log.Record(t.Context(), evidence.Decision{Time: at, Start: at, Until: at.Add(time.Hour)})
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var got [2]evidence.Decision
	dec := json.NewDecoder(&out)
	for i := range got {
		if err := dec.Decode(&got[i]); err != nil {
			t.Fatal(err)
		}
	}
	if d := got[1].Start.Sub(got[0].Start); d != b.Sub(a) {
		t.Errorf("starts are %v apart, were %v", d, b.Sub(a))
	}
	if d := got[0].Until.Sub(got[0].Time); d != time.Hour {
		t.Errorf("block of %v, was 1h", d)
	}
}

func BenchmarkJSONLines(b *testing.B) {
	for name, cfg := range map[string]evidence.LogConfig{
		"plain": {}, "chained": {Chained: true}, "signed": {Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}},
	} {
		b.Run(name, func(b *testing.B) {
			log := logtest.New(b, io.Discard, cfg)
			b.ReportAllocs()
			for b.Loop() {
				log.Record(b.Context(), started)
			}
		})
	}
}
