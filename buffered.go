package politeness

import (
	"bufio"
	"io"
	"reflect"
	"sync"
)

// isBuffered reports whether n bytes of body have come already, so that a read doesn't wait. It
// knows only the bodies of http.Transport over HTTP/1. It reports false for every other body, and
// if the fields of net/http's bodies have changed since this was written.
func isBuffered(body io.ReadCloser, n int64) bool {
	v := reflect.ValueOf(body)
	if !isOfNetHTTP(v) || v.Type().Elem().Name() != "bodyEOFSignal" {
		return false
	}
	layout := layoutOf(v.Type().Elem())
	inner, ok := step(v, layout.body, nil)
	if !ok || !isOfNetHTTP(inner) {
		return false
	}
	limited, ok := step(inner, layout.src, reflect.TypeFor[*io.LimitedReader]())
	if !ok {
		return false
	}
	reader, ok := step(limited, 0, reflect.TypeFor[*bufio.Reader]())
	if !ok || layout.r < 0 || layout.w < 0 {
		return false
	}
	// The connection's own goroutine leaves its reader alone until the body has been read.
	held := reader.Elem().Field(layout.w).Int() - reader.Elem().Field(layout.r).Int()
	return held >= n
}

// isOfNetHTTP reports whether v is a pointer to a struct of package net/http.
func isOfNetHTTP(v reflect.Value) bool {
	if !v.IsValid() || v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	t := v.Type().Elem()
	return t.Kind() == reflect.Struct && t.PkgPath() == "net/http"
}

// A layout has the indexes of fields; -1: there is no such field.
type layout struct {
	body int // of net/http's bodyEOFSignal: a *body of net/http
	src  int // of net/http's body: an *io.LimitedReader
	r, w int // of bufio.Reader
}

var layouts struct {
	sync.Once
	layout
}

// layoutOf returns the layout for that type of body, which is the same at each call.
func layoutOf(signal reflect.Type) layout {
	layouts.Do(func() {
		reader := reflect.TypeFor[bufio.Reader]()
		layouts.layout = layout{
			body: indexOf(signal, "body", reflect.Interface),
			src:  0, // the type of body isn't known yet, and its field is the first
			r:    indexOf(reader, "r", reflect.Int),
			w:    indexOf(reader, "w", reflect.Int),
		}
	})
	return layouts.layout
}

// indexOf returns the index of the field with that name and kind; -1: there is none.
func indexOf(t reflect.Type, name string, kind reflect.Kind) int {
	field, ok := t.FieldByName(name)
	if !ok || field.Type.Kind() != kind || len(field.Index) != 1 {
		return -1
	}
	return field.Index[0]
}

// step returns the pointer in a field of the struct that v points to. The field is an interface. ok
// is false if there is no such field or pointer, or if the pointer isn't of type want. If want is
// nil, every type will do.
func step(v reflect.Value, index int, want reflect.Type) (pointer reflect.Value, ok bool) {
	if index < 0 || index >= v.Elem().NumField() {
		return v, false
	}
	field := v.Elem().Field(index)
	if field.Kind() != reflect.Interface || field.IsNil() {
		return v, false
	}
	pointer = field.Elem()
	ok = pointer.Kind() == reflect.Pointer && !pointer.IsNil() && (want == nil || pointer.Type() == want)
	return pointer, ok
}
