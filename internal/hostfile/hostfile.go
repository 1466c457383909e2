// Package hostfile reads files with a value for each host, one a line, and reads them again when
// they change:
//
//	# a comment
//	example.com        the value, which the caller parses
//	example.com:8080   of one port alone
//	.example.org       of every name that ends in it, and of example.org
//
// The most special line holds: the name with its port, the name, then the longest suffix. No
// goroutine watches a file: the methods look at it, once a second at most.
package hostfile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/internal/hostname"
)

const (
	pause    = time.Second     // between two looks at a file
	settling = 2 * time.Second // a file that was younger when it was read may have changed without another time
	maxFile  = 64 << 20        // bytes of a file
	maxShown = 20              // number of faults that an error lists
)

// A File holds the values of a file, as it is now. It is safe for concurrent use.
type File[T any] struct {
	path  string
	parse func(rest string) (T, error)

	table atomic.Pointer[table[T]]
	seen  atomic.Int64 // when the file was looked at last, in Unix nanoseconds
	mu    sync.Mutex   // held while the file is read
}

// A table holds the values of a file as it was read. It doesn't change.
type table[T any] struct {
	exact    map[string]T // by host key
	suffixes map[string]T // by name, without the first dot
	err      error        // faults of the file; nil: none

	size  int64
	mod   time.Time
	fresh bool // the file was so young that it may have changed since
}

// Open reads the file at path. parse returns the value of a line: rest is the text behind the host,
// without the blanks around it.
func Open[T any](path string, parse func(rest string) (T, error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse}
	t := f.read(&table[T]{})
	if t.err != nil {
		return nil, t.err
	}
	f.table.Store(t)
	f.seen.Store(time.Now().UnixNano())
	return f, nil
}

// Find returns the value for a host key, such as "example.com" or "localhost:8080".
func (f *File[T]) Find(key string) (T, bool) {
	t := f.current()
	if value, ok := t.exact[key]; ok {
		return value, true
	}
	name := key
	if strings.Contains(key, ":") { // it has a port, or is an address of IPv6
		name = hostname.WithoutPort(key)
	}
	if value, ok := t.exact[name]; ok {
		return value, true
	}
	return t.findSuffix(name)
}

// findSuffix returns the value of the longest suffix of name.
func (t *table[T]) findSuffix(name string) (T, bool) {
	if len(t.suffixes) == 0 {
		return *new(T), false
	}
	for {
		if value, ok := t.suffixes[name]; ok {
			return value, true
		}
		dot := strings.IndexByte(name, '.')
		if dot < 0 {
			return *new(T), false
		}
		name = name[dot+1:]
	}
}

// Err returns the faults of the file as it is now; nil: it has none. Its lines without a fault
// hold, and for other hosts the values from before.
func (f *File[T]) Err() error { return f.current().err }

// All yields each host with its value, in the order of their names.
func (f *File[T]) All(yield func(host string, value T) bool) {
	t := f.current()
	names := slices.Collect(maps.Keys(t.exact))
	for suffix := range t.suffixes {
		names = append(names, "."+suffix)
	}
	slices.Sort(names)
	for _, name := range names {
		value, ok := t.exact[name]
		if !ok {
			value = t.suffixes[name[1:]]
		}
		if !yield(name, value) {
			return
		}
	}
}

// current returns the table of the file. It looks once a second at most, and reads the file again
// if that has changed.
func (f *File[T]) current() *table[T] {
	now := time.Now().UnixNano()
	seen := f.seen.Load()
	past := now - seen
	isRecent := 0 <= past && past < int64(pause) // a clock may be set back
	if isRecent || !f.seen.CompareAndSwap(seen, now) {
		return f.table.Load()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.table.Load()
	info, err := os.Stat(f.path)
	if err == nil && !before.fresh && info.Size() == before.size && info.ModTime().Equal(before.mod) {
		return before
	}
	t := f.read(before)
	f.table.Store(t)
	return t
}

// read returns the table of the file. Where the file has faults, values of before are added to it.
func (f *File[T]) read(before *table[T]) *table[T] {
	t := &table[T]{exact: map[string]T{}, suffixes: map[string]T{}}
	fault := func(err error) *table[T] {
		kept := *before
		kept.err = fmt.Errorf("%s: %w", f.path, err)
		kept.fresh = true // so that the next look reads it again
		return &kept
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return fault(cause(err))
	}
	if info.Size() > maxFile {
		return fault(fmt.Errorf("%d bytes are more than %d", info.Size(), maxFile))
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fault(cause(err))
	}
	t.size = info.Size()
	t.mod = info.ModTime()
	t.fresh = time.Since(t.mod).Abs() < settling
	t.err = f.readLines(t, data)
	if t.err != nil {
		inherit(t.exact, before.exact)
		inherit(t.suffixes, before.suffixes)
	}
	return t
}

// readLines adds the lines of data to t. The error lists those with a fault.
func (f *File[T]) readLines(t *table[T], data []byte) error {
	var faults []error
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxFile+1)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if n == 1 {
			line = strings.TrimPrefix(line, "\ufeff") // of editors that mark UTF-8
		}
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := t.add(line, f.parse); err != nil && len(faults) <= maxShown {
			if len(faults) == maxShown {
				err = errors.New("and more faults behind it")
			}
			faults = append(faults, fmt.Errorf("%s, line %d: %w", f.path, n, err))
		}
	}
	return errors.Join(faults...)
}

// cause is err without the path, which read adds.
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// inherit adds to m what is in old alone.
func inherit[T any](m, old map[string]T) {
	for k, v := range old {
		if _, ok := m[k]; !ok {
			m[k] = v
		}
	}
}

// add adds the host and the value of a line.
func (t *table[T]) add(line string, parse func(string) (T, error)) error {
	host := line
	rest := ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		host = line[:i]
		rest = strings.TrimSpace(line[i:])
	}
	values := t.exact
	name, isSuffix := strings.CutPrefix(host, ".")
	if isSuffix {
		values = t.suffixes
	}
	key, err := spell(name)
	if err != nil {
		return fmt.Errorf("%.100q: %w", host, err)
	}
	if isSuffix && hostname.WithoutPort(key) != key {
		return fmt.Errorf("%.100q: a suffix holds for every port; write it without one", host)
	}
	if _, ok := values[key]; ok {
		return fmt.Errorf("%.100q: a second line about it", host)
	}
	value, err := parse(rest)
	if err != nil {
		return fmt.Errorf("%.100q: %w", host, err)
	}
	values[key] = value
	return nil
}

// spell returns the host key that a line is about.
func spell(host string) (string, error) {
	switch {
	case strings.Contains(host, "/"):
		return "", errors.New("is a URL, or a part of one; write the host's name alone")
	case strings.Contains(host, "*"):
		return "", errors.New("a suffix is written with a dot, as .example.com")
	case strings.ContainsAny(host, "@\\?\"'<>,;") || strings.Contains(host, ".."):
		return "", errors.New("is no name of a host")
	case len(host) > hostname.MaxLen:
		return "", fmt.Errorf("is longer than %d bytes", hostname.MaxLen)
	}
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		if _, err := netip.ParseAddr(host); err == nil {
			host = "[" + host + "]"
		}
	}
	if u, err := url.Parse("http://" + host + "/"); err != nil || u.Hostname() == "" {
		return "", cmp.Or(err, errors.New("is no name of a host"))
	}
	key := hostname.Key(host)
	if key == "" {
		return "", errors.New("is no name of a host")
	}
	return key, nil
}
