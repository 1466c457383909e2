package evidence

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOpenFileNamesTheLogBefore: each chained log of a file, whatever was left behind there.
func TestOpenFileNamesTheLogBefore(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.jsonl")
	write := func(records int, cfg LogConfig) {
		t.Helper()
		log, err := OpenFile(name, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for range records {
			log.Record(context.Background(), Decision{Type: Started, URL: "https://example.com/"})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	type line struct{ After, Hash string }
	read := func() (lines []line, texts []string) {
		t.Helper()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.Lines(string(data)) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			lines, texts = append(lines, l), append(texts, text)
		}
		return lines, texts
	}

	write(3, LogConfig{Chained: true})
	write(0, LogConfig{Chained: true})
	write(2, LogConfig{Chained: true})
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"type":"started","url":"https://exam`); err != nil { // and then it was killed
		t.Fatal(err)
	}
	file.Close()
	write(1, LogConfig{Chained: true})
	write(1, LogConfig{})
	write(1, LogConfig{Chained: true})

	lines, texts := read()
	for i, want := range []bool{true, false, false, true, true, true, false, true, true, true, false, true, true} {
		if got := lines[i].Hash != ""; got != want {
			t.Errorf("line %d has a hash: %t", i, got)
		}
	}
	begins := map[int]int{0: -1, 4: 3, 5: 4, 8: 7, 11: -1} // where a log begins, and which line it names
	var prev []byte
	for i, l := range lines {
		if i == 10 {
			if l != (line{}) {
				t.Errorf("a log that isn't chained: %+v", l)
			}
			continue
		}
		before, first := begins[i]
		after := ""
		if first {
			prev = make([]byte, sha256.Size)
			if before >= 0 {
				after = lines[before].Hash
			}
		}
		if l.After != after {
			t.Errorf("line %d names %q, want %q", i, l.After, after)
		}
		text, _, hashed := strings.Cut(texts[i], `,"hash"`)
		if prev = append(prev, text...); !hashed {
			continue
		}
		sum := sha256.Sum256(prev)
		if prev = sum[:]; l.Hash != base64.RawURLEncoding.EncodeToString(prev) {
			t.Errorf("line %d has the hash %q", i, l.Hash)
		}
	}
	if len(lines) != 13 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestOpenFileNamesALogThatWasKilled by its last hash, though lines without one stand behind it.
func TestOpenFileNamesALogThatWasKilled(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.jsonl")
	var lines [][]byte
	for range 2 {
		log, err := OpenFile(name, LogConfig{Chained: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			log.Record(context.Background(), Decision{Type: Started, URL: "https://example.com/"})
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines = bytes.SplitAfter(data, []byte("\n"))
		if err := os.WriteFile(name, bytes.Join(lines[:3], nil), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var killed, next LogLine
	if err := errors.Join(killed.UnmarshalJSON(lines[0]), next.UnmarshalJSON(lines[3])); err != nil {
		t.Fatal(err)
	}
	if killed.Hash == "" || next.After != killed.Hash {
		t.Errorf("a log whose hash is %q is named as %q", killed.Hash, next.After)
	}
}

func TestCloseTellsWhatClosingTheFileSays(t *testing.T) {
	log, err := OpenFile(filepath.Join(t.TempDir(), "log.jsonl"), LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	log.Record(t.Context(), Decision{Type: Started})
	if err := log.Flush(); err != nil {
		t.Fatal(err)
	}
	log.file.Close()
	if err := log.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
}

// TestLinesAreReadBackwards wherever the blocks lie in which the file is read.
func TestLinesAreReadBackwards(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	type line struct {
		from int64
		text string
	}
	for range 300 {
		var file strings.Builder
		var want []line
		for i := range rnd.IntN(6) {
			length := []int{0, 1, 5, 100, block - 5, block - 1, block, block + 1, 2 * block}[rnd.IntN(9)] + rnd.IntN(3)
			want = append(want, line{int64(file.Len()), strings.Repeat(string(rune('a'+i)), length) + "\n"})
			file.WriteString(want[i].text)
		}
		if half := []int{0, 7, block - 2, block - 1, block, 2*block - 1, rnd.IntN(2 * block)}[rnd.IntN(7)]; half > 0 {
			want = append(want, line{int64(file.Len()), strings.Repeat("y", half)})
			file.WriteString(want[len(want)-1].text)
		}
		var got []line
		err := backwards(strings.NewReader(file.String()), int64(file.Len()), func(from int64, text []byte) bool {
			got = append(got, line{from, string(text)})
			return true
		})
		if slices.Reverse(want); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d bytes: %d lines, want %d, or others; %v", file.Len(), len(got), len(want), err)
		}
	}
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // what is no file on a disk passes for one
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, c := range []struct {
		noColor, term string
		want          bool
	}{{"", "xterm", true}, {"1", "xterm", false}, {"", "dumb", false}, {"1", "dumb", false}} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", c.term)
		if got := onTerminal(device); got != c.want {
			t.Errorf("NO_COLOR=%s TERM=%s: %v", c.noColor, c.term, got)
		}
		if onTerminal(new(bytes.Buffer)) {
			t.Error("a buffer is a terminal")
		}
	}
	for typ, want := range map[Type]string{HostBlocked: "\x1b[33mhost blocked  \x1b[0mh", Started: "started       h"} {
		if got := (&Decision{Type: typ, Host: "h"}).line(true); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAFileThatIsNoLogStaysAsItIs, though it begins as one does.
func TestAFileThatIsNoLogStaysAsItIs(t *testing.T) {
	const record = `{"type":"started","allowed":true,"n":1}`
	for text, isLog := range map[string]bool{
		`{"type":"FeatureCollection","features":[]}`:                                      false,
		`{"type":"FeatureCollection","features":[]}` + "\n":                               false,
		`{"type":"FeatureCollection","features":[` + "\n" + `{"type":"Feature"}` + "\n]}": false,
		`{"type":"Feature"}` + "\n" + record + "\n":                                       false,
		`{"type":"Feature","line":"x","n":1}`:                                             false,
		`{"type":"sta` + "\n":                                                             false,
		`{"kind":"started"`:                                                               false,
		"x":                                                                               false,
		record + "\n" + `{"type":"Feature"}` + "\n":                                       true, // it has begun as a log
		record + "\n" + `{"type":"sta`:                                                    true,
		record:                                                                            true,
		`{"type":"sta`:                                                                    true,
		`{"ty`:                                                                            true,
		"":                                                                                true,
	} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := OpenFile(name, LogConfig{})
		if err == nil {
			err = log.Close()
		}
		if (err == nil) != isLog {
			t.Errorf("%q: %v", text, err)
		}
		if left, err := os.ReadFile(name); err != nil || !isLog && string(left) != text {
			t.Errorf("%q is left as %q, %v", text, left, err)
		}
	}
}

// TestOpenFileRefusesAFileThatIsOpen: two Logs would write into each other's lines.
func TestOpenFileRefusesAFileThatIsOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.jsonl")
	log, err := OpenFile(name, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(name, LogConfig{}); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "another Log") {
		t.Errorf("a second Log: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenFile(name, LogConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
