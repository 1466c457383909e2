// Package problems finds what is wrong with a Config.
package problems

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
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

// Of takes apart what errors.Join has joined, also below a prefix such as "Backoff: ", so that each
// line of an error names its whole field.
func Of(err error) []error {
	if err == nil {
		return nil
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		prefix, ok := strings.CutSuffix(err.Error(), inner.Error())
		if parts := joined(inner); ok && parts != nil {
			var all []error
			for _, part := range parts {
				for _, problem := range Of(part) {
					all = append(all, fmt.Errorf("%s%w", prefix, problem))
				}
			}
			return all
		}
	}
	return []error{err}
}

// joined returns the errors that errors.Join has joined to err; nil: err is another one.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	if again := errors.Join(several.Unwrap()...); again == nil || again.Error() != err.Error() {
		return nil
	}
	return several.Unwrap()
}
