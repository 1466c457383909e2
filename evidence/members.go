package evidence

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// A member tells how one field of a [Decision], an [Entry] or a [Policy] is written, read and
// logged.
type member struct {
	name   string       // name in JSON
	key    string       // what JSON has before its value: `,"name":`
	kind   reflect.Kind // of the field's type: a struct is a time, a pointer leads to a Policy
	span   bool         // whether it is a Duration
	always bool         // whether it is written even where it is false
	most   int          // bytes of JSON that a string may take; 0: no limit
	offset uintptr
}

// ofEntry is the table of all members in their order: those of a Decision, which is the first field
// of an Entry, and then those that a Log adds.
var (
	ofPolicy   = membersOf(reflect.TypeFor[Policy]())
	ofEntry    = membersOf(reflect.TypeFor[Entry]())
	ofDecision = ofEntry[:reflect.TypeFor[Decision]().NumField()]
	ofLog      = ofEntry[len(ofDecision):] // what a Log adds
	stamps     = slices.DeleteFunc(slices.Clone(ofDecision), func(m member) bool { return m.kind != reflect.Struct })
	bounded    = slices.DeleteFunc(slices.Clone(ofDecision), func(m member) bool { return m.most == 0 })
)

func membersOf(t reflect.Type) []member {
	var table []member
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		most, _ := strconv.Atoi(f.Tag.Get("most")) // 0 without one
		table = append(table, member{name, `,"` + name + `":`, f.Type.Kind(), f.Type == reflect.TypeFor[time.Duration](), option != "omitzero", most, f.Offset})
	}
	return table
}

// find returns the index in table of the member called name, -1 if there is none. It looks from
// the given index on first.
func find(table []member, name []byte, from int) int {
	for i := range table {
		if at := (from + i) % len(table); table[at].name == string(name) {
			return at
		}
	}
	return -1
}

// in returns the field of the struct d that m tells of. T is its type.
func in[T any](d unsafe.Pointer, m *member) *T { return (*T)(unsafe.Add(d, m.offset)) }
