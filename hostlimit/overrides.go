package hostlimit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-politeness/politeness/internal/hostfile"
)

// Overrides are the limits of single hosts in a file. The file is read again when it changes, so
// that a crawl can be slowed down or sped up while it runs. Each line has a host, or a suffix with
// a dot before it, and settings:
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
// (Delay.Adaptive), ceiling and from-end belong. A suffix holds for every name that ends in it, and
// for itself; a host without a port for all of its ports.
//
//	overrides, err := cfg.Limits.ReadOverrides("hosts.txt")
//	cfg.Limits.Override = overrides.Limits
type Overrides struct{ file *hostfile.File[Limits] }

// ReadOverrides reads the file at path, whose lines complete the limits of c. The error names each
// line that is wrong. Replace the file by a rename: one that is truncated and written in place has
// no limits for an instant.
func (c Config) ReadOverrides(path string) (*Overrides, error) {
	c.Override = nil
	rules, err := c.Rules()
	if err != nil {
		return nil, err
	}
	file, err := hostfile.Open(path, func(settings string) (Limits, error) {
		l, err := parseLimits(settings)
		if err == nil {
			err = l.validate(rules.limits)
		}
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("hostlimit: %w", err)
	}
	return &Overrides{file}, nil
}

// Limits returns the limits of key, for Config.Override. It looks at the file at most once a
// second.
func (o *Overrides) Limits(key string) (Limits, bool) { return o.file.Find(key) }

// Err returns nil if the present content of the file is in force. Otherwise the error names each
// line that is wrong: a host of such a line keeps the limits that it had before, the other lines
// hold.
func (o *Overrides) Err() error {
	if err := o.file.Err(); err != nil {
		return fmt.Errorf("hostlimit: %w", err)
	}
	return nil
}

// String returns the limits in force, as a file that ReadOverrides reads.
func (o *Overrides) String() string {
	var b strings.Builder
	for host, l := range o.file.All {
		fmt.Fprintf(&b, "%s %s\n", host, l)
	}
	return b.String()
}

// String returns l in the settings of a line, see [Overrides].
func (l Limits) String() string {
	var s []string
	if l.Concurrency != 0 {
		s = append(s, "concurrency="+strconv.Itoa(l.Concurrency))
	}
	d := l.Delay
	switch {
	case d == Delay{}:
		return strings.Join(s, " ")
	case d.DangerouslyNone:
		s = append(s, "dangerously-no-delay")
	case d.Max > d.Min:
		s = append(s, fmt.Sprintf("delay=%v..%v", d.Min, d.Max))
	case d.Min > 0:
		s = append(s, fmt.Sprintf("delay=%v", d.Min))
	}
	if d.Adaptive != Learned {
		s = append(s, "adaptive="+d.Adaptive.setting())
	}
	if d.Ceiling != 0 {
		s = append(s, "ceiling="+d.Ceiling.String())
	}
	if d.FromEnd {
		s = append(s, "from-end")
	}
	return strings.Join(s, " ")
}

// parseLimits reads the settings of one line.
func parseLimits(settings string) (l Limits, err error) {
	seen := map[string]bool{}
	for _, setting := range strings.Fields(settings) {
		name, value, hasValue := strings.Cut(setting, "=")
		if seen[name] {
			return Limits{}, fmt.Errorf("%s is said twice", name)
		}
		seen[name] = true
		d := &l.Delay
		switch {
		case name == "concurrency":
			if l.Concurrency, err = strconv.Atoi(value); err != nil || l.Concurrency < 1 {
				return Limits{}, fmt.Errorf("concurrency=%s: want a whole number from 1", value)
			}
		case name == "delay":
			least, most, isRange := strings.Cut(value, "..")
			if d.Min, err = duration(name, least); err == nil && isRange {
				d.Max, err = duration(name, most)
			}
			if err == nil && d.Min == 0 && d.Max == 0 {
				err = errors.New("delay=0s: say dangerously-no-delay if that is meant")
			}
		case name == "adaptive":
			d.Adaptive, err = parseAdaptive(value)
		case name == "ceiling":
			d.Ceiling, err = duration(name, value)
		case name == "from-end" && !hasValue:
			d.FromEnd = true
		case name == "dangerously-no-delay" && !hasValue:
			d.DangerouslyNone = true
		default:
			err = fmt.Errorf("%.100q is none of concurrency=N, delay=2s, delay=2s..4s, adaptive=..., ceiling=5m, from-end, dangerously-no-delay", setting)
		}
		if err != nil {
			return Limits{}, err
		}
	}
	switch {
	case len(seen) == 0:
		return Limits{}, errors.New("no settings behind the host")
	case (seen["adaptive"] || seen["ceiling"] || seen["from-end"]) && !seen["delay"] && !seen["dangerously-no-delay"]:
		return Limits{}, errors.New("adaptive, ceiling and from-end need a delay beside them")
	}
	return l, nil
}

func duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s=%s: want a time such as 500ms, 2s or 1m30s", name, value)
	}
	return d, nil
}
