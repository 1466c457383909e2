package evidence_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
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

var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

const testOrigin = "example.com/crawler"

// signed configures a log that testKey signs, with publish, which may be nil.
func signed(publish func([]byte)) evidence.LogConfig {
	return evidence.LogConfig{Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin, Publish: publish}}
}

// root is the Merkle tree hash of RFC 6962, section 2.1, as it is written there.
func root(leaves [][]byte) []byte {
	switch n := len(leaves); n {
	case 0:
		sum := sha256.Sum256(nil)
		return sum[:]
	case 1:
		sum := sha256.Sum256(append([]byte{0}, leaves[0]...))
		return sum[:]
	default:
		k := 1 // the largest power of two smaller than n
		for k*2 < n {
			k *= 2
		}
		sum := sha256.Sum256(slices.Concat([]byte{1}, root(leaves[:k]), root(leaves[k:])))
		return sum[:]
	}
}

// checkNote verifies a signed note by hand (https://c2sp.org/signed-note), and returns its size and
// root. It shares nothing with package note.
func checkNote(t *testing.T, signed string) (size int, hash []byte) {
	t.Helper()
	text, sigs, ok := strings.Cut(signed, "\n\n")
	text += "\n"
	name, sig, ok2 := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(sigs, "— "), "\n"), " ")
	raw, err := base64.StdEncoding.DecodeString(sig)
	if !ok || !ok2 || err != nil || len(raw) != 4+64 || name != testOrigin {
		t.Fatalf("not a note with one signature: %q", signed)
	}
	public := testKey.Public().(ed25519.PublicKey)
	id := sha256.Sum256(slices.Concat([]byte(testOrigin), []byte{'\n', 1}, public))
	if !bytes.Equal(raw[:4], id[:4]) || !ed25519.Verify(public, []byte(text), raw[4:]) {
		t.Errorf("bad signature: %q", signed)
	}
	var encoded string
	if n, err := fmt.Sscanf(text, testOrigin+"\n%d\n%s\n", &size, &encoded); n != 2 || err != nil {
		t.Fatalf("not a checkpoint: %q", text)
	}
	hash, err = base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	return size, hash
}

// checkSigned checks each checkpoint of a log against the lines before it, and returns the sizes
// that they have.
func checkSigned(t *testing.T, log []byte) (sizes []int) {
	t.Helper()
	lines := bytes.Split(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	for i, line := range lines {
		var e evidence.LogLine
		if err := e.UnmarshalJSON(line); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if e.Type != evidence.Checkpoint {
			continue
		}
		size, hash := checkNote(t, e.Text)
		if size != i || !bytes.Equal(hash, root(lines[:i])) {
			t.Errorf("line %d: a checkpoint of %d lines, root %x; the lines' is %x", i+1, size, hash, root(lines[:i]))
		}
		sizes = append(sizes, size)
	}
	return sizes
}

func TestSignedCheckpointsStandAMinuteApartAndAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var published []string
		log := logtest.New(t, &out, signed(func(c []byte) { published = append(published, string(c)) }))
		for range 100 {
			log.Record(t.Context(), started)
			time.Sleep(7 * time.Second)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		sizes := checkSigned(t, out.Bytes())
		// The first at the tenth record, 63 s after the first; each checkpoint is a line itself; the
		// last one comes after the seal.
		want := []int{10}
		for n := 9; n+9 < 100; n += 9 {
			want = append(want, want[len(want)-1]+9+1)
		}
		want = append(want, 100+len(want)+1)
		if !slices.Equal(sizes, want) {
			t.Errorf("checkpoints of %v lines, want %v", sizes, want)
		}
		if len(published) != len(sizes) {
			t.Errorf("%d checkpoints published, %d in the log", len(published), len(sizes))
		}
		for i, c := range published {
			if size, _ := checkNote(t, c); size != sizes[i] {
				t.Errorf("checkpoint %d published is of %d lines", i, size)
			}
		}
	})
}

// TestSignedIsTheTreeOfRFC6962 compares trees of all small sizes.
func TestSignedIsTheTreeOfRFC6962(t *testing.T) {
	for n := range 70 {
		var out bytes.Buffer
		log := logtest.New(t, &out, evidence.LogConfig{Chained: true, Signed: &evidence.SignConfig{Key: testKey, Origin: testOrigin}})
		record(log, n)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if sizes := checkSigned(t, out.Bytes()); !slices.Equal(sizes, []int{n + 1}) {
			t.Fatalf("%d records: checkpoints of %v lines", n, sizes)
		}
	}
}

func TestSignedIsPublishedOnlyOnceItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{}
		published := 0
		log := logtest.New(t, d, signed(func([]byte) {
			published++
			checkSigned(t, d.Bytes()[:bytes.LastIndexByte(d.Bytes(), '\n')+1])
			if n := bytes.Count(d.Bytes(), []byte(`{"type":"checkpoint"`)); n < published {
				t.Errorf("%d published, %d written", published, n)
			}
		}))
		for range 20 {
			log.Record(t.Context(), started)
			time.Sleep(time.Minute)
		}
		if published > 0 {
			t.Fatalf("%d checkpoints published of a log that couldn't be written", published)
		}
		d.room = 1 << 30
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		if published != 20 { // 19 and the last
			t.Errorf("%d published", published)
		}
	})
}

func TestSignedDiskThatStaysFullPublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := logtest.New(t, &disk{}, signed(func([]byte) { t.Error("published") }))
		log.Record(t.Context(), started)
		time.Sleep(time.Hour)
		log.Record(t.Context(), started)
		if err := log.Close(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "2 records lost") {
			t.Errorf("Close: %v", err)
		}
	})
}

// A syncedBuffer is a writer whose Sync fails with the errors that it has, one after the other.
type syncedBuffer struct {
	bytes.Buffer
	errs []error
}

func (b *syncedBuffer) Sync() error {
	if len(b.errs) == 0 {
		return nil
	}
	err := b.errs[0]
	b.errs = b.errs[1:]
	return err
}

// TestSignedPublishesNothingThatCouldNotBeSynced: nor anything later, since a system may have dropped what
// it couldn't write, and succeed the next time.
func TestSignedPublishesNothingThatCouldNotBeSynced(t *testing.T) {
	for want, errs := range [][]error{{syscall.EIO}, {nil, syscall.ENOSPC}, {nil, nil, nil}} {
		synctest.Test(t, func(t *testing.T) {
			published := 0
			log := logtest.New(t, &syncedBuffer{errs: errs}, signed(func([]byte) { published++ }))
			for range 3 { // two of which have a checkpoint behind them, as the end has
				log.Record(t.Context(), evidence.Decision{Type: evidence.Started, Time: time.Now()})
				time.Sleep(2 * time.Minute)
			}
			err := log.Close()
			if failed := errs[len(errs)-1]; !errors.Is(err, failed) || err != nil != (failed != nil) || failed != nil && published != want || failed == nil && published != 3 {
				t.Errorf("%v: %d published, %v", errs, published, err)
			}
		})
	}
	published := 0
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // can't be synced, as a pipe can't
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	log := logtest.New(t, device, signed(func([]byte) { published++ }))
	if err := log.Close(); err != nil || published != 1 {
		t.Errorf("%d published on %s, %v", published, os.DevNull, err)
	}
}

func TestSignedPublishMayPanicOrTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		calls := 0
		log := logtest.New(t, &out, signed(func([]byte) {
			if calls++; calls == 1 {
				panic("boom")
			}
			time.Sleep(10 * time.Minute)
		}))
		begin := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 100 {
					log.Record(t.Context(), started)
					time.Sleep(10 * time.Second)
				}
			})
		}
		wg.Wait()
		err := log.Close()
		if err == nil || !strings.Contains(err.Error(), "boom") {
			t.Errorf("Close: %v", err)
		}
		sizes := checkSigned(t, out.Bytes())
		if len(sizes) < 15 || calls != len(sizes) {
			t.Errorf("%d calls for %d checkpoints within %v", calls, len(sizes), time.Since(begin))
		}
	})
}

func TestSignedMisuseIsAClearError(t *testing.T) {
	for want, cfg := range map[string]evidence.SignConfig{
		"ed25519.GenerateKey": {Key: testKey[:31], Origin: testOrigin},
		`"a crawler"`:         {Key: testKey, Origin: "a crawler"},
		`"a+b"`:               {Key: testKey, Origin: "a+b"},
		`origin ""`:           {Key: testKey},
	} {
		cfg := evidence.LogConfig{Signed: &cfg}
		log, err := evidence.NewLog(new(bytes.Buffer), cfg)
		if log != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLog, %s: %v, %v", want, log, err)
		}
		log, err = evidence.OpenFile(filepath.Join(t.TempDir(), "log"), cfg)
		if log != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenFile, %s: %v, %v", want, log, err)
		}
	}
}

// TestOpenFileGoesOnWithTheTree starts a crawler again and again, some of them killed at any byte.
func TestOpenFileGoesOnWithTheTree(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	name := filepath.Join(t.TempDir(), "crawl.jsonl")
	var largest int // size of the largest tree that was published
	cfg := signed(func(c []byte) {
		size, _ := checkNote(t, string(c))
		largest = max(largest, size)
	})
	synctest.Test(t, func(t *testing.T) {
		for range 60 {
			log, err := evidence.OpenFile(name, cfg)
			if err != nil {
				t.Fatal(err)
			}
			before, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for range rnd.IntN(40) {
				log.Record(t.Context(), started)
				if rnd.IntN(20) == 0 {
					log.Record(t.Context(), evidence.Decision{Type: evidence.RobotsFetched, Text: strings.Repeat("ü", rnd.IntN(100_000))})
				}
				time.Sleep(time.Duration(rnd.IntN(10)) * time.Second)
			}
			killed := rnd.IntN(2) == 0
			published := largest
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			if killed {
				// What was published is on the disk; of the rest, any part may be.
				after, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				least := max(len(before), offsetOf(after, published))
				cut := least + rnd.IntN(len(after)-least+1)
				if rnd.IntN(2) == 0 { // a line, which may be a long one, is there wholly
					cut += bytes.IndexByte(after[cut:], '\n') + 1
				}
				if err := os.Truncate(name, int64(cut)); err != nil {
					t.Fatal(err)
				}
				largest = published
			}
			time.Sleep(time.Hour)
		}
		log, err := evidence.OpenFile(name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sizes := checkSigned(t, text)
	if len(sizes) < 50 || sizes[len(sizes)-1] != largest || !slices.IsSorted(sizes) {
		t.Errorf("checkpoints of %v lines; %d published", sizes, largest)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// offsetOf returns where the line ends that follows n lines.
func offsetOf(log []byte, n int) int {
	if n == 0 {
		return 0
	}
	at := 0
	for range n + 1 {
		at += bytes.IndexByte(log[at:], '\n') + 1
	}
	return at
}

func TestOpenFileLeavesWhatIsNoLogAlone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "photo.jpg")
	for _, content := range []string{"\xff\xd8\xff no line end", "{\"typ", "{\"type\":\"robots_allowed\"", "[]\n"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := evidence.OpenFile(name, signed(nil))
		if strings.HasPrefix(content, `{"typ`) { // the beginning of a first record
			if err != nil {
				t.Errorf("%q: %v", content, err)
			} else if err := log.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "photo.jpg: not a log") {
			t.Errorf("%q: %v", content, err)
		}
		if got, _ := os.ReadFile(name); string(got) != content {
			t.Errorf("%q became %q", content, got)
		}
	}
}

func TestOpenFileRefusesAnothersTree(t *testing.T) {
	name := filepath.Join(t.TempDir(), "crawl.jsonl")
	open := func(origin string) error {
		log, err := evidence.OpenFile(name, evidence.LogConfig{Signed: &evidence.SignConfig{Key: testKey, Origin: origin}})
		if err != nil {
			return err
		}
		record(log, 10)
		return log.Close()
	}
	if err := open("one"); err != nil {
		t.Fatal(err)
	}
	if err := open("another"); err == nil || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "another") {
		t.Errorf("another origin: %v", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(text, []byte(`"edge":"`)) + len(`"edge":"`)
	text[i] ^= 1
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := open("one"); err == nil || !strings.Contains(err.Error(), "checkpoint") {
		t.Errorf("an edge that was changed: %v", err)
	}
}

func TestSignedDoesNotAllocatePerRecord(t *testing.T) {
	log := logtest.New(t, io.Discard, signed(nil))
	record(log, 1000)
	if n := testing.AllocsPerRun(1000, func() { log.Record(context.Background(), started) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSaltsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 10 {
		var out bytes.Buffer
		log := logtest.New(t, &out, signed(nil))
		record(log, 100)
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var e evidence.LogLine
			if err := e.UnmarshalJSON(bytes.TrimSpace(line)); err != nil {
				t.Fatal(err)
			}
			raw, err := base64.RawURLEncoding.DecodeString(e.Salt)
			if err != nil || len(raw) != 8 || binary.LittleEndian.Uint64(raw) == 0 || seen[e.Salt] {
				t.Fatalf("salt %q: %v", e.Salt, err)
			}
			seen[e.Salt] = true
		}
	}
}
