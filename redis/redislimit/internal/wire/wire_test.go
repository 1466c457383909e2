package wire

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

var update = flag.Bool("update", false, "write testdata/records.golden anew; a change of the records needs another Version")

// records are all records that processes and the server exchange or keep.
var records = withOperations([]any{
	Call{},
	Hours{},
	Reply{},
	Head{},
	Turn{},
	Gone{},
	Report{},
	Done{},
	Changed{},
	Recalled{},
	Peeked{},
	State{},
	Name{},
	Fleet{},
	Member{},
	Push{},
	Hello{},
	Verdict{},
	Paused{},
	Echo{},
	NewGeneration{},
	Host{},
	StoredTurn{},
	Process{},
	Generation{},
	Refusals{},
	Suspect{},
	Operation{},
	Adapt{},
	Change{},
	Lease{},
	Lost{},
})

func withOperations(all []any) []any {
	for _, o := range operations {
		all = append(all, reflect.ValueOf(o).Elem().Interface())
	}
	return all
}

// described lists the fields of all records, each as "Record.name type", below the version.
func described(version int, records []any) []string {
	lines := []string{fmt.Sprintf("version %d", version)}
	for _, record := range records {
		kind := reflect.TypeOf(record)
		for _, f := range fieldsOf(kind) {
			lines = append(lines, kind.Name()+"."+f.name+" "+f.kind)
		}
	}
	slices.Sort(lines[1:])
	return lines
}

// compare returns a sentence about each difference between the golden file and the records.
func compare(golden, now []string) (problems []string) {
	versionIs := now[0]
	versionWas := golden[0]
	for _, line := range golden[1:] {
		if !slices.Contains(now, line) {
			problems = append(problems, "missing or renamed: "+line)
		}
	}
	for _, line := range now[1:] {
		if !slices.Contains(golden, line) {
			problems = append(problems, "additional: "+line)
		}
	}
	if len(problems) > 0 && versionIs == versionWas {
		problems = append(problems, "the records have changed, and Version hasn't: processes of two versions would lose what they tell each other")
	}
	if len(problems) == 0 && versionIs != versionWas {
		problems = append(problems, "the golden file is of "+versionWas)
	}
	return problems
}

func golden(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestTheWireIsThatOfItsVersion: a field that is renamed, missing or additional is named here.
func TestTheWireIsThatOfItsVersion(t *testing.T) {
	now := described(Version, records)
	if *update {
		was := golden(t, "records.golden")
		if len(compare(was, now)) > 0 && was[0] == now[0] {
			t.Fatal("set another Version first")
		}
		if err := os.WriteFile(filepath.Join("testdata", "records.golden"), []byte(strings.Join(now, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, problem := range compare(golden(t, "records.golden"), now) {
		t.Error(problem)
	}
}

// TestAChangeOfARecordIsNamed tries the three kinds of a change.
func TestAChangeOfARecordIsNamed(t *testing.T) {
	was := []string{"version 7", "Turn.at Micros", "Turn.guard Micros"}
	for name, c := range map[string]struct {
		now  []string
		want []string
	}{
		"the same":    {now: was},
		"renamed":     {now: []string{"version 7", "Turn.at Micros", "Turn.guards Micros"}, want: []string{"Turn.guard ", "Turn.guards ", "Version"}},
		"missing":     {now: []string{"version 7", "Turn.at Micros"}, want: []string{"Turn.guard ", "Version"}},
		"additional":  {now: append(slices.Clone(was), "Turn.why string"), want: []string{"Turn.why ", "Version"}},
		"a new type":  {now: []string{"version 7", "Turn.at int", "Turn.guard Micros"}, want: []string{"Turn.at Micros", "Turn.at int", "Version"}},
		"old file":    {now: []string{"version 8", "Turn.at Micros", "Turn.guard Micros"}, want: []string{"version 7"}},
		"new version": {now: []string{"version 8", "Turn.at Micros"}, want: []string{"Turn.guard "}},
	} {
		got := compare(was, c.now)
		if len(got) != len(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q doesn't name %q", name, got[i], want)
			}
		}
	}
}

// TestAllRecordsAreListed: a record that the golden file doesn't have could change unseen.
func TestAllRecordsAreListed(t *testing.T) {
	listed := make(map[reflect.Type]bool)
	for _, record := range records {
		listed[reflect.TypeOf(record)] = true
	}
	var look func(of string, kind reflect.Type)
	look = func(of string, kind reflect.Type) {
		switch kind.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			look(of, kind.Elem())
		case reflect.Struct:
			if !listed[kind] {
				t.Errorf("%s of %s isn't listed", kind.Name(), of)
			}
		}
	}
	for _, record := range records {
		kind := reflect.TypeOf(record)
		for i := range kind.NumField() {
			f := kind.Field(i)
			look(kind.Name(), f.Type)
			tag := f.Tag.Get("msgpack")
			if !f.Anonymous && (tag == "" || strings.Contains(tag, ",")) {
				t.Errorf("%s.%s has the tag %q, want a name", kind.Name(), f.Name, tag)
			}
		}
	}
}

// filled sets every field of v to a value that isn't zero.
func filled(v reflect.Value, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString("text " + strconv.FormatInt(*n, 10))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint64:
		v.SetUint(1<<63 + uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			filled(v.Index(i), n)
		}
	}
}

// TestTheWireCarriesAllRefusals: a field that package rules gets is one that processes of a fleet
// must tell each other.
func TestTheWireCarriesAllRefusals(t *testing.T) {
	ofReport := []string{"Until", "SetAt", "Cause", "EasedAt"} // a Report has them by name
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rules.Refusals]()) {
		if f.Anonymous || slices.Contains(ofReport, f.Name) {
			continue
		}
		var s rules.Refusals
		n := int64(0)
		filled(reflect.ValueOf(&s).Elem().FieldByIndex(f.Index), &n)
		got, err := ReadRefusals(PackRefusals(&s))
		if err != nil || got != s {
			t.Errorf("rules.Refusals.%s is not on the wire: %+v becomes %+v, %v", f.Name, s, got, err)
		}
	}
	// An entry in the middle of the suspects may be empty.
	var s rules.Refusals
	s.Suspects[2].Resource = 7
	if got, err := ReadRefusals(PackRefusals(&s)); err != nil || got != s {
		t.Errorf("%+v becomes %+v, %v", s, got, err)
	}
	if s, err := ReadRefusals(`{"Row":1}`); err == nil {
		t.Errorf("of an older version: %+v", s)
	}
}

// TestNumbersOfTheServerAreRoundedUp, as a gap may only grow by it. A number that step.lua can't have
// computed is an error.
func TestNumbersOfTheServerAreRoundedUp(t *testing.T) {
	for _, c := range []struct {
		value any
		want  Micros
		bad   bool
	}{
		{value: int64(-3), want: -3},
		{value: uint64(3), want: 3},
		{value: float32(1.5), want: 2},
		{value: 1.25, want: 2},
		{value: -1.25, want: -1},
		{value: 0.0},
		{value: float64(1<<53 - 1), want: 1<<53 - 1},
		{value: float64(1 << 53), bad: true},
		{value: -float64(1 << 53), bad: true},
		{value: 1e300, bad: true},
		{value: math.Inf(-1), bad: true},
		{value: math.NaN(), bad: true},
		{value: "3", bad: true},
		{value: true, bad: true},
	} {
		raw, err := msgpack.Marshal(map[string]any{"kind": "ok", "at": c.value})
		if err != nil {
			t.Fatal(err)
		}
		var peeked Peeked
		if err := ReadAnswer(raw, &peeked); (err != nil) != c.bad || !c.bad && peeked.At != c.want {
			t.Errorf("%v is read as %d, %v", c.value, peeked.At, err)
		}
	}
	for d, want := range map[time.Duration]Micros{0: 0, 1: 1, 2000: 2, 2001: 3, -2001: -2, math.MaxInt64: 1 << 52} {
		if got := MicrosOf(d); got != want {
			t.Errorf("MicrosOf(%d) = %d, want %d", d, got, want)
		}
	}
}

// TestAnAnswerIsUnderstoodInWhole, or not at all.
func TestAnAnswerIsUnderstoodInWhole(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  string // in the error; empty: none
	}{
		"a turn":                {value: map[string]any{"kind": "at", "at": 7, "host": map[string]any{"next": 7}}},
		"an empty table of Lua": {value: map[string]any{"kind": "at", "host": []any{}}},
		"a key that is broken":  {value: map[string]any{"kind": "broken", "err": "why"}},
		"an additional field":   {value: map[string]any{"kind": "at", "soon": 7}, want: `"soon"`},
		"one of its host":       {value: map[string]any{"kind": "at", "host": map[string]any{"bytes": 7}}, want: `"bytes"`},
		"another kind":          {value: map[string]any{"kind": "GO"}, want: `"GO"`},
		"no kind":               {value: map[string]any{"at": 7}, want: `""`},
		"that of another type":  {value: map[string]any{"kind": "stored"}, want: `"stored"`},
		"a text for a time":     {value: map[string]any{"kind": "at", "at": "soon"}, want: "int64"},
		"a list":                {value: []any{"at", 7}, want: "not a record"},
		"a number":              {value: 7, want: "not a record"},
	} {
		raw, err := msgpack.Marshal(c.value)
		if err != nil {
			t.Fatal(err)
		}
		err = ReadAnswer(raw, new(Turn))
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzRead holds that no bytes make a reader panic, or take more memory than a small multiple of
// their length: a length that they state is believed only if so many bytes follow.
func FuzzRead(f *testing.F) {
	seed := func(v any) {
		raw, err := msgpack.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	seed(map[string]any{"now": 7, "gen": "r7", "call": 3, "answers": []any{map[string]any{"kind": "go", "at": 7}}})
	seed(map[string]any{"kind": "push", "id": "p.1", "due": 1e300, "why": "d"})
	seed(map[string]any{"kind": "block", "key": "k", "host": map[string]any{"block": int64(1 << 40), "rest": "x"}})
	seed(map[string]any{"suspects": []any{map[string]any{"resource": uint64(math.MaxUint64)}}})
	f.Add([]byte(""))
	f.Add([]byte("\x81\xa7answers\xdd\xff\xff\xff\xff\x01"))                   // a list of 4 thousand million
	f.Add([]byte("\x81\xa3gen\xdb\xff\xff\xff\xff\x01"))                       // a text of 4 GB
	f.Add([]byte("\xdf\xff\xff\xff\xff\xa3gen\x01"))                           // a map
	f.Add([]byte("\x81\xa8suspects" + strings.Repeat("\x91", 1000)))           // lists in lists
	f.Add([]byte("\x81\xa5taken\xdc\xff\xff" + strings.Repeat("\x80", 65535))) // a list of empty records
	f.Fuzz(func(t *testing.T, noise []byte) {
		text := string(noise)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		reply, _ := ReadReply(text)
		for _, raw := range reply.Answers {
			_ = ReadAnswer(raw, new(Fleet))
		}
		_ = ReadAnswer(noise, new(Turn))
		_ = ReadAnswer(noise, new(Fleet))
		_, _ = ReadMessage(text)
		_, _ = ReadRefusals(text)
		runtime.ReadMemStats(&after)
		// The largest entry of a list has some 100 bytes, and its shortest text one.
		most := uint64(1<<20 + 2000*len(noise))
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%d bytes took %d of memory", len(noise), took)
		}
	})
}
