package revisit

import (
	"encoding"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

var (
	_ encoding.BinaryMarshaler   = Page{}
	_ encoding.BinaryAppender    = Page{}
	_ encoding.BinaryUnmarshaler = (*Page)(nil)
)

// TestBinary: a page comes back as it was, in whole seconds, and is small.
func TestBinary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	total, n := 0, 0
	for range 2000 {
		s := Schedule{Min: time.Duration(1+r.IntN(1000)) * time.Minute}
		var p Page
		at := noon
		for range 1 + r.IntN(5) {
			h := headers("Date", at.Format(http.TimeFormat))
			if r.IntN(2) == 0 {
				h.Set("ETag", `"65a1b2c3-1f40"`)
			}
			if r.IntN(2) == 0 {
				h.Set("Last-Modified", at.Add(-time.Duration(r.IntN(1e6))*time.Second).Format(http.TimeFormat))
			}
			if r.IntN(10) == 0 {
				h.Set("Last-Modified", "a while ago")
			}
			if r.IntN(3) == 0 {
				h.Set("Cache-Control", "max-age=3600")
			}
			status := []int{200, 200, 304, 404, 301, 302, 500}[r.IntN(7)]
			text := uint32(r.IntN(3))
			p, _, _ = s.Next(p, Answer{Time: at, Status: status, Header: h, Text: text, Words: text + uint32(r.IntN(2)), Conditional: true})
			at = at.Add(time.Duration(r.IntN(1e6)) * time.Second)
		}
		data, err := p.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		total += len(data)
		n++
		var back Page
		if err := back.UnmarshalBinary(data); err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		// Nothing that may not be asked before a time may be asked before it afterwards.
		for _, times := range [][2]time.Time{{p.Earliest, back.Earliest}, {p.Due, back.Due}} {
			if late := times[1].Sub(times[0]); late < 0 || late >= time.Second {
				t.Fatalf("%v came back as %v", times[0], times[1])
			}
		}
		for _, times := range [][2]time.Time{{p.Visited, back.Visited}, {p.Whole, back.Whole}, {p.Changed, back.Changed}} {
			if early := times[0].Sub(times[1]); early < 0 || early >= time.Second {
				t.Fatalf("%v came back as %v", times[0], times[1])
			}
		}
		again, _ := back.MarshalBinary()
		if string(again) != string(data) || back.ETag != p.ETag || back.LastModified != p.LastModified ||
			back.Text != p.Text || back.Words != p.Words || back.Gone != p.Gone || back.Hints != p.Hints || back.Life != p.Life {
			t.Fatalf("%+v came back as %+v", p, back)
		}
		// No part of it is a page.
		for cut := range len(data) {
			if err := back.UnmarshalBinary(data[:cut]); err == nil || !back.IsZero() {
				t.Fatalf("%d of %d bytes are %+v, %v", cut, len(data), back, err)
			}
		}
		if err := back.UnmarshalBinary(append(data, 0)); err == nil {
			t.Fatal("a page with a byte behind it is one")
		}
	}
	if mean := total / n; mean > 50 {
		t.Errorf("%d bytes a page", mean)
	}
	var zero Page
	data, _ := zero.MarshalBinary()
	if err := zero.UnmarshalBinary(data); err != nil || !zero.IsZero() {
		t.Errorf("the zero Page: %+v, %v", zero, err)
	}
	if err := zero.UnmarshalBinary([]byte{2, 0}); err == nil {
		t.Error("a page of a later version is read")
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	p, _, _ := Schedule{Min: time.Hour}.Next(Page{}, Answer{
		Time: noon, Status: 200, Header: headers("ETag", `"x"`, "Last-Modified", httpTime(-time.Hour)),
	})
	data, _ := p.MarshalBinary()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Page
		if err := p.UnmarshalBinary(data); err != nil {
			if !p.IsZero() {
				t.Errorf("a page beside the error %v", err)
			}
			return
		}
		again, _ := p.MarshalBinary()
		var back Page
		if err := back.UnmarshalBinary(again); err != nil || back != p {
			t.Errorf("%+v came back as %+v, %v", p, back, err)
		}
	})
}
