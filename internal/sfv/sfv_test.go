package sfv_test

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-politeness/politeness/internal/sfv"
)

// TestStructuredFieldTests holds the parser against the suite of the HTTP working group
// (httpwg/structured-field-tests at 1e280c3): its dictionaries and lists, and its items as the
// values of dictionaries.
func TestStructuredFieldTests(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	count := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var cases []struct {
			Name       string
			Raw        []string
			HeaderType string `json:"header_type"`
			Expected   json.RawMessage
			MustFail   bool `json:"must_fail"`
			CanFail    bool `json:"can_fail"`
		}
		if err := json.Unmarshal(text, &cases); err != nil {
			t.Fatal(file, err)
		}
		for _, c := range cases {
			field, expected := strings.Join(c.Raw, ", "), c.Expected
			parse := func(field string) (any, error) {
				d, err := sfv.ParseDictionary(field)
				return asJSON(d), err
			}
			switch c.HeaderType {
			case "dictionary":
			case "list":
				parse = func(field string) (any, error) {
					list, err := sfv.ParseList(field)
					return itemsAsJSON(list), err
				}
			case "item":
				field = "a=" + strings.TrimLeft(field, " ")
				expected = fmt.Appendf(nil, `[["a", %s]]`, c.Expected)
			default:
				continue
			}
			count++
			got, err := parse(field)
			switch {
			case err != nil && (c.MustFail || c.CanFail):
			case err != nil:
				t.Errorf("%s, %s: %q: %v", file, c.Name, field, err)
			case c.MustFail:
				t.Errorf("%s, %s: %q: got %v, want an error", file, c.Name, field, got)
			default:
				if want := decoded(t, expected); !reflect.DeepEqual(got, want) {
					t.Errorf("%s, %s: %q: got %v, want %v", file, c.Name, field, got, want)
				}
			}
		}
	}
	if count < 150 {
		t.Errorf("only %d cases", count)
	}
}

// decoded returns what the suite expects.
func decoded(t *testing.T, expected json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(expected, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// asJSON returns a dictionary as the suite writes one.
func asJSON(d sfv.Dictionary) any {
	list := []any{}
	for _, m := range d {
		list = append(list, []any{m.Key, itemAsJSON(m.Item)})
	}
	return list
}

func itemAsJSON(i sfv.Item) any {
	params := []any{}
	for _, p := range i.Params {
		params = append(params, []any{p.Key, bareAsJSON(p.Value)})
	}
	if list, ok := i.Value.([]sfv.Item); ok {
		return []any{itemsAsJSON(list), params}
	}
	return []any{bareAsJSON(i.Value), params}
}

func itemsAsJSON(list []sfv.Item) any {
	items := []any{}
	for _, item := range list {
		items = append(items, itemAsJSON(item))
	}
	return items
}

func bareAsJSON(v any) any {
	typed := func(name string, value any) any { return map[string]any{"__type": name, "value": value} }
	switch v := v.(type) {
	case int64:
		return float64(v)
	case sfv.Decimal:
		return float64(v)
	case sfv.Date:
		return typed("date", float64(v))
	case sfv.Token:
		return typed("token", string(v))
	case sfv.DisplayString:
		return typed("displaystring", string(v))
	case []byte:
		return typed("binary", base32.StdEncoding.EncodeToString(v))
	}
	return v
}

// TestSizes: what RFC 9651 asks of parsers at least, and where this one stops.
func TestSizes(t *testing.T) {
	list := func(n int, between string) string {
		var keys []string
		for i := range n {
			keys = append(keys, fmt.Sprintf("k%d", i))
		}
		return strings.Join(keys, between)
	}
	for field, ok := range map[string]bool{
		list(1024, ","):                         true,
		list(1025, ","):                         false,
		list(257, ";"):                          true,
		list(1026, ";"):                         false,
		strings.Repeat("k,", 5000) + "k":        true, // one key
		"a=(" + strings.Repeat("1 ", 256) + ")": true,
		strings.Repeat("a", 1024):               true,
		strings.Repeat("a", 256<<10+1):          false,
		"a=(" + strings.Repeat("1 ", 1<<20):     false,
		`a="` + strings.Repeat("x", 1024) + `"`: true,
	} {
		if _, err := sfv.ParseDictionary(field); (err == nil) != ok {
			t.Errorf("%.20s... of %d bytes: %v", field, len(field), err)
		}
	}
	for n, ok := range map[int]bool{1024: true, 1025: false} {
		if _, err := sfv.ParseList("1" + strings.Repeat(", 1", n-1)); (err == nil) != ok {
			t.Errorf("a list of %d: %v", n, err)
		}
	}
}

// TestLongFieldsTakeLittleMemory: items and parameters take many times the bytes that they are
// written in.
func TestLongFieldsTakeLittleMemory(t *testing.T) {
	var params strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&params, ";a%d", i)
	}
	for name, field := range map[string]string{
		"one inner list":          "a=(" + strings.Repeat("1 ", 5<<20) + ")",
		"parameters of all items": "a=(" + strings.Repeat("1"+params.String()+" ", 2000) + ")",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = sfv.ParseDictionary(field)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
			t.Errorf("%s: %d bytes of memory for %d", name, took, len(field))
		}
	}
}

// TestTheLastOfEqualKeysCounts, at the place of the first, however many keys there are.
func TestTheLastOfEqualKeysCounts(t *testing.T) {
	for _, keys := range []int{1, 15, 16, 17, 1000} {
		var field strings.Builder
		for round := range 3 {
			for i := range keys {
				fmt.Fprintf(&field, "k%d=%d, ", i, round)
			}
		}
		d, err := sfv.ParseDictionary(field.String() + "z;a=1;b;a=2")
		if err != nil || len(d) != keys+1 {
			t.Fatalf("%d keys: %d members, %v", keys, len(d), err)
		}
		for i, m := range d[:keys] {
			if m.Key != fmt.Sprintf("k%d", i) || m.Value != int64(2) {
				t.Fatalf("%d keys: member %d is %+v", keys, i, m)
			}
		}
		if p := d[keys].Params; len(p) != 2 || p[0].Key != "a" || p[0].Value != int64(2) {
			t.Errorf("%d keys: parameters %+v", keys, p)
		}
	}
}

// TestErrorsSayWhere: an error names the place and the mistake.
func TestErrorsSayWhere(t *testing.T) {
	for field, want := range map[string]string{
		"a=1, B=2": "at byte 5: no key, which begins with a lower-case letter or a star",
		"a=1 b=2":  "at byte 4: 'b' where a comma should be",
		"a=1,":     "at byte 4: nothing after a comma",
	} {
		if _, err := sfv.ParseDictionary(field); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", field, err, want)
		}
	}
}

// FuzzDictionary: no input makes the parser panic, keys differ, and an appended member changes
// nothing of those before.
func FuzzDictionary(f *testing.F) {
	for _, field := range []string{"train-ai=n;x=1, search", `a=("b" c;d=?0);e=:YQ==:`, "a=@-1, b=1.5", `a=%"%c3%bc"`, "a=\"\\\"", "*=,", "\x00"} {
		f.Add(field)
	}
	f.Fuzz(func(t *testing.T, field string) {
		d, err := sfv.ParseDictionary(field)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, m := range d {
			if m.Key == "" || m.Value == nil || seen[m.Key] {
				t.Errorf("%q: member %+v of %v", field, m, d)
			}
			seen[m.Key] = true
		}
		if len(d) == 0 || len(d) > 1000 || seen["zz"] {
			return
		}
		more, err := sfv.ParseDictionary(field + ",zz=1")
		if err != nil || !reflect.DeepEqual(more[:len(d)], d) {
			t.Errorf("%q: %v; with another member %v, %v", field, d, more, err)
		}
	})
}
