// Package overrides reads the limits of single hosts from a file, for hostlimit.Config.Override.
// The file is read again when it changes, so that a crawl can be slowed down or sped up while it
// runs. Each line has a host, or a suffix with a dot before it, and settings:
//
//	# host              settings
//	example.com         delay=2s..4s
//	example.com:8080    concurrency=1
//	.example.org        delay=10s adaptive=learned+proportional(1) ceiling=5m
//	slow.example.org    concurrency=1 delay=30s from-end
//	localhost           dangerously-no-delay concurrency=8
//
// Only the most specific line of a host holds. A line without concurrency, or without a delay,
// leaves it to the Config; a line with a delay replaces the whole Delay, to which adaptive
// (Delay.Adaptive), ceiling and from-end belong. A suffix applies to every name that ends in it,
// and to itself. A host without a port applies to all of its ports.
//
//	file, err := overrides.Read("hosts.txt", cfg.Hosts)
//	cfg.Hosts.Override = file.Limits
package overrides

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
	"github.com/go-politeness/politeness/hostlimit/rules"
	"github.com/go-politeness/politeness/internal/hostfile"
)

// A File is a file of limits. Make it with Read. It is safe for concurrent use.
type File struct {
	file *hostfile.File[hostlimit.Limits]
}

// Read reads the file at path, whose lines complete the limits of c. The error names each line that
// is wrong. Replace the file by a rename: one that is truncated and written in place has no limits
// for an instant.
func Read(path string, c hostlimit.Config) (*File, error) {
	c.Override = nil
	if _, err := rules.New(c); err != nil {
		return nil, err
	}
	file, err := hostfile.Open(path, func(settings string) (hostlimit.Limits, error) {
		l, err := parse(settings)
		if err == nil {
			err = check(c, l)
		}
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	return &File{file}, nil
}

// check reports every problem of l as the limits of a host.
func check(c hostlimit.Config, l hostlimit.Limits) error {
	c.Override = func(string) (hostlimit.Limits, bool) { return l, true }
	checked, err := rules.New(c)
	if err == nil {
		_, err = checked.Limits("")
	}
	if cause := errors.Unwrap(err); cause != nil { // without the name of the package and of the key
		return cause
	}
	return err
}

// Limits returns the limits of key, for Config.Override. It looks at the file at most once a
// second.
func (f *File) Limits(key string) (hostlimit.Limits, bool) { return f.file.Find(key) }

// Err returns nil if the present content of the file is in force. Otherwise the error names each
// wrong line. A host of such a line keeps its earlier limits, and the other lines apply. Check it
// after a change of the file.
func (f *File) Err() error {
	if err := f.file.Err(); err != nil {
		return fmt.Errorf("overrides: %w", err)
	}
	return nil
}

// String returns the limits in force, as a file that Read reads.
func (f *File) String() string {
	var b strings.Builder
	for host, l := range f.file.All {
		fmt.Fprintf(&b, "%s %s\n", host, settings(l))
	}
	return b.String()
}

// settings returns l as the settings of a line.
func settings(l hostlimit.Limits) string {
	var s []string
	if l.Concurrency != 0 {
		s = append(s, "concurrency="+strconv.Itoa(l.Concurrency))
	}
	d := l.Delay
	switch {
	case d == hostlimit.Delay{}:
		return strings.Join(s, " ")
	case d.DangerouslyNone:
		s = append(s, "dangerously-no-delay")
	case d.Max > d.Min:
		s = append(s, fmt.Sprintf("delay=%v..%v", d.Min, d.Max))
	case d.Min > 0:
		s = append(s, fmt.Sprintf("delay=%v", d.Min))
	}
	if d.Adaptive != hostlimit.Learned {
		s = append(s, "adaptive="+adaptive(d.Adaptive))
	}
	if d.Ceiling != 0 {
		s = append(s, "ceiling="+d.Ceiling.String())
	}
	if d.FromEnd {
		s = append(s, "from-end")
	}
	return strings.Join(s, " ")
}

// parse reads the settings of one line.
func parse(settings string) (hostlimit.Limits, error) {
	var l hostlimit.Limits
	seen := map[string]bool{}
	for _, setting := range strings.Fields(settings) {
		name, _, _ := strings.Cut(setting, "=")
		if seen[name] {
			return hostlimit.Limits{}, fmt.Errorf("%s is said twice", name)
		}
		seen[name] = true
		if err := set(&l, setting); err != nil {
			return hostlimit.Limits{}, err
		}
	}
	if len(seen) == 0 {
		return hostlimit.Limits{}, errors.New("no settings behind the host")
	}
	// A Delay without a delay would replace that of the Config by the default of 200 to 500 ms.
	hasDelay := seen["delay"] || seen["dangerously-no-delay"]
	needsDelay := seen["adaptive"] || seen["ceiling"] || seen["from-end"]
	if needsDelay && !hasDelay {
		return hostlimit.Limits{}, errors.New("adaptive, ceiling and from-end need a delay beside them")
	}
	return l, nil
}

// all are the settings, for errors.
const all = "concurrency=N, delay=2s, delay=2s..4s, adaptive=..., ceiling=5m, from-end, dangerously-no-delay"

// set puts one setting into l.
func set(l *hostlimit.Limits, setting string) error {
	var err error
	name, value, hasValue := strings.Cut(setting, "=")
	switch {
	case name == "concurrency":
		l.Concurrency, err = strconv.Atoi(value)
		if err != nil || l.Concurrency < 1 {
			return fmt.Errorf("concurrency=%s: want a whole number from 1", value)
		}
		return nil
	case name == "delay":
		return setDelay(&l.Delay, value)
	case name == "adaptive":
		l.Delay.Adaptive, err = parseAdaptive(value)
		return err
	case name == "ceiling":
		l.Delay.Ceiling, err = duration(name, value)
		return err
	case name == "from-end" && !hasValue:
		l.Delay.FromEnd = true
		return nil
	case name == "dangerously-no-delay" && !hasValue:
		l.Delay.DangerouslyNone = true
		return nil
	}
	return fmt.Errorf("%.100q is none of %s", setting, all)
}

// setDelay reads 2s, or 2s..4s.
func setDelay(d *hostlimit.Delay, value string) (err error) {
	least, most, isRange := strings.Cut(value, "..")
	if d.Min, err = duration("delay", least); err != nil {
		return err
	}
	if isRange {
		if d.Max, err = duration("delay", most); err != nil {
			return err
		}
	}
	if d.Min == 0 && d.Max == 0 {
		return errors.New("delay=0s: say dangerously-no-delay if that is meant")
	}
	return nil
}

func duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%s: want a time such as 500ms, 2s or 1m30s", name, value)
	}
	return d, nil
}

// adaptive returns a as a file has it: "learned+proportional(1)" for
// Longest(Learned, Proportional(1)).
func adaptive(a hostlimit.Adaptive) string {
	parts := strings.Split(strings.ReplaceAll(a.String(), "Longest(", ""), ", ")
	for i, part := range parts {
		name, argument, has := strings.Cut(strings.TrimRight(part, ")"), "(")
		if has {
			argument = strings.ReplaceAll(argument, "e+", "e") // the plus of an exponent would end the part
			name += "(" + argument + ")"
		}
		parts[i] = strings.ToLower(name)
	}
	return strings.Join(parts, "+")
}

// formulas are the parts of an adaptive setting, for errors.
const formulas = "fixed, learned, squared, proportional(2), slower(1), throttle(2)"

// parseAdaptive is the reverse of adaptive.
func parseAdaptive(s string) (hostlimit.Adaptive, error) {
	var longest hostlimit.Adaptive
	for i, part := range strings.Split(strings.ToLower(s), "+") {
		a, ok := parseFormula(part)
		if !ok {
			return hostlimit.Adaptive{}, fmt.Errorf("%q is none of %s", part, formulas)
		}
		if i > 0 { // the zero Adaptive is Learned, not the beginning of a sum
			a = hostlimit.Longest(longest, a)
		}
		longest = a
	}
	return longest, nil
}

func parseFormula(s string) (a hostlimit.Adaptive, ok bool) {
	switch s {
	case "fixed":
		return hostlimit.Fixed, true
	case "learned":
		return hostlimit.Learned, true
	case "squared":
		return hostlimit.Squared, true
	}
	name, argument, _ := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	number, err := strconv.ParseFloat(argument, 64)
	if err != nil {
		return hostlimit.Adaptive{}, false
	}
	switch name {
	case "proportional":
		return hostlimit.Proportional(number), true
	case "slower":
		return hostlimit.Slower(number), true
	case "throttle":
		return hostlimit.Throttle(number), true
	}
	return hostlimit.Adaptive{}, false
}
