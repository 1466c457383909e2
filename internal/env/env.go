// Package env reads settings from environment variables.
package env

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/weburl"
)

// A Reader reads variables and collects the errors of those that can't be read.
type Reader struct{ Errs []error }

// Text returns a variable without white space around it; ok is false if nothing is left.
func (r *Reader) Text(name string) (text string, ok bool) {
	v := strings.TrimSpace(os.Getenv(name))
	return v, v != ""
}

func (r *Reader) bad(name, value, want string) {
	err := fmt.Errorf("politeness: environment variable %s=%q is not %s", name, weburl.Clip(value), want)
	r.Errs = append(r.Errs, err)
}

// Longest bounds every duration: what is longer than ten years is a typing error, not a policy.
const Longest = 10 * 365 * 24 * time.Hour

// Duration reads a positive number of units, up to most.
func (r *Reader) Duration(name string, unit, most time.Duration) (time.Duration, bool) {
	v, ok := r.Text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(v, 64)
	if err == nil && n <= most.Seconds()/unit.Seconds() { // before multiplying; not so for NaN
		if d := time.Duration(n * float64(unit)); d > 0 {
			return d, true
		}
	}
	units := "seconds"
	if unit == time.Minute {
		units = "minutes"
	}
	r.bad(name, v, fmt.Sprintf("a positive number of %s, at most %.0f", units, most.Seconds()/unit.Seconds()))
	return 0, false
}

// Count reads a whole number of at least 1.
func (r *Reader) Count(name string) (int64, bool) {
	v, ok := r.Text(name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 1 {
		r.bad(name, v, "a whole number of at least 1")
		return 0, false
	}
	return n, true
}
