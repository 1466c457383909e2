// Package problems finds what is wrong with a Config.
package problems

import (
	"fmt"
	"reflect"
)

// OrNil returns value. Where that holds a nil pointer, func, map or channel, with which the first
// request would panic, OrNil adds a problem of the field and returns nil.
func OrNil[T any](field string, value T, add func(field string, err error)) T {
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		if v.IsNil() {
			add(field, fmt.Errorf("holds a nil %T: leave the field itself nil for its default", value))
			return *new(T)
		}
	}
	return value
}

// Of takes apart what errors.Join has joined, so that each line of an error names its whole field.
func Of(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // only the outermost
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Of(e)...)
	}
	return all
}
