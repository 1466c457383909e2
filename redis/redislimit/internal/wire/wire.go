// Package wire has the records that processes and the server exchange, the records that the server
// keeps, and step.lua, the script that the server runs. Each record is a map of named fields,
// packed as MessagePack, and each answer and message carries its kind.
//
//	file        records
//	call.go     from a process to the server: a Call with its operations
//	reply.go    the answers
//	message.go  published: pushes, hellos, blocks
//	stored.go   kept on the server: hosts, turns, processes, the generation; the Version of all
//	codec.go    records as text
//
// A field has its name in its tag, and nowhere else: step.lua begins with tables of all names,
// which are made from the tags (see Source). A name that no record has is an error there, as a
// field that no record has is an error here. testdata/records.golden has all names: a change of
// them needs another Version.
package wire

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"
)

//go:embed step.lua
var script string

// Source is the script: tables of the names of all fields, and step.lua.
var Source = strings.Replace(script, "-- (records)\n", prelude(), 1)

// operations are all requests.
var operations = []Request{
	new(Take), new(Release), new(Started), new(Renew), new(Outcome), new(Restore), new(Recall),
	new(Peek), new(GetState), new(Pause), new(GetName), new(GetFleet), new(Greet),
}

// prelude returns Lua: the fields of the records that step.lua reads, each with its value when it
// is missing. Those of requests are functions, as a call has few of them.
func prelude() string {
	var out strings.Builder
	fmt.Fprintf(&out, "local VERSION = %d\n", Version)
	for _, record := range []any{Call{}, Host{}, StoredTurn{}, Process{}, Generation{}} {
		kind := reflect.TypeOf(record)
		fmt.Fprintf(&out, "local %s = %s\n", strings.ToUpper(kind.Name()), luaTable(kind))
	}
	out.WriteString("local REQUEST = {\n")
	request := func(name string, record reflect.Type) {
		fmt.Fprintf(&out, "\t%s = function() return %s end,\n", name, luaTable(record))
	}
	for _, o := range operations {
		request(o.name(), reflect.TypeOf(o).Elem())
	}
	// Parts of them.
	request("adapt", reflect.TypeFor[Adapt]())
	request("change", reflect.TypeFor[Change]())
	request("lease", reflect.TypeFor[Lease]())
	request("lost", reflect.TypeFor[Lost]())
	out.WriteString("}\n")
	return out.String()
}

// luaTable writes a table of the fields of a record.
func luaTable(record reflect.Type) string {
	var fields []string
	for _, f := range fieldsOf(record) {
		fields = append(fields, f.name+" = "+f.zero)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// A field is one of a record, under its name in Lua.
type field struct {
	name string
	zero string // in Lua; false for a record, a list, a table
	kind string // for the golden file
}

// fieldsOf returns the fields of a record, with those of embedded ones.
func fieldsOf(record reflect.Type) []field {
	var fields []field
	for i := range record.NumField() {
		f := record.Field(i)
		if f.Anonymous {
			fields = append(fields, fieldsOf(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		kind := strings.ReplaceAll(f.Type.String(), "wire.", "")
		zero := "false"
		switch f.Type.Kind() {
		case reflect.String:
			zero = "''"
		case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64, reflect.Float64:
			zero = "0"
		}
		fields = append(fields, field{name: name, zero: zero, kind: kind})
	}
	return fields
}
