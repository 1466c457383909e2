package crawl

import (
	"fmt"
	"strings"
	"testing"
)

// words returns words from one number to another, in letters.
func words(from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		for _, c := range fmt.Sprint(i) {
			text.WriteByte(byte(c - '0' + 'a'))
		}
		text.WriteByte(' ')
	}
	return text.String()
}

// TestSketch: short texts are compared exactly, and long ones by a sample.
func TestSketch(t *testing.T) {
	for name, tt := range map[string]struct {
		one, other  string
		like, isFar bool
	}{
		"nothing":                   {"", "", false, false},
		"nothing and a text":        {"", "one", false, true},
		"one text":                  {"one two", "one two", true, false},
		"in another order":          {"one two", "two one", true, false},
		"words twice":               {"one one two", "two two one", true, false},
		"numbers":                   {"one two 3", "one two 4", true, false},
		"one of two words":          {"one two", "one three", false, false},
		"one of three words":        {"one two three", "one two four", true, false},
		"two of three words":        {"one two three", "one four five", false, true},
		"four of eight words":       {words(0, 8), words(4, 12), false, false},
		"three of eight words":      {words(0, 8), words(3, 11), true, false},
		"a few words more":          {words(0, 10), words(0, 14), true, false},
		"much more":                 {words(0, 10), words(0, 40), false, true},
		"a few of a hundred words":  {words(0, 100), words(5, 105), true, false},
		"a third of a hundred":      {words(0, 100), words(33, 133), false, false},
		"most of a hundred":         {words(0, 100), words(80, 180), false, true},
		"a few of a thousand words": {words(0, 1000), words(20, 1020), true, false},
		"other words":               {words(0, 1000), words(1000, 2000), false, true},
	} {
		_, one := textOf([]byte(tt.one))
		_, other := textOf([]byte(tt.other))
		for _, pair := range [][2]*sketch{{&one, &other}, {&other, &one}} {
			like := pair[0].isLike(pair[1])
			isFar := pair[0].isFarFrom(pair[1])
			if like != tt.like || isFar != tt.isFar {
				t.Errorf("%s: like %t, far %t", name, like, isFar)
			}
		}
	}
}
