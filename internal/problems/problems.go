// Package problems finds what is wrong with a Config.
package problems

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// A List collects the problems of a Config.
type List struct {
	Prefix string // before the name of each field
	errs   []error
}

// Add adds the problems of a field that err joins; nil: it has none.
func (l *List) Add(field string, err error) {
	for _, problem := range Of(err) {
		l.errs = append(l.errs, fmt.Errorf("%s%s: %w", l.Prefix, field, problem))
	}
}

// Err joins all problems, one a line; nil: there are none.
func (l *List) Err() error { return errors.Join(l.errs...) }

// OrNil returns value. Where that holds a nil pointer, func, map or channel, with which the first
// request would panic, OrNil adds a problem of the field and returns nil.
func OrNil[T any](field string, value T, found *List) T {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		if v.IsNil() {
			found.Add(field, fmt.Errorf("holds a nil %T: leave the field itself nil for its default", value))
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
		parts := joined(inner)
		prefix, isSuffix := strings.CutSuffix(err.Error(), inner.Error())
		if parts == nil || !isSuffix {
			continue
		}
		var all []error
		for _, part := range parts {
			for _, problem := range Of(part) {
				all = append(all, fmt.Errorf("%s%w", prefix, problem))
			}
		}
		return all
	}
	return []error{err}
}

// joined returns the errors that errors.Join has joined to err; nil: err is another one.
func joined(err error) []error {
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	// An error of several with a text of its own is one problem.
	again := errors.Join(several.Unwrap()...)
	if again == nil || again.Error() != err.Error() {
		return nil
	}
	return several.Unwrap()
}
