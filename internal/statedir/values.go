package statedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Values are the values of keys in a Dir, each in a file of its own: a line that seals it, and the
// value as JSON with its key. The zero T has no file.
type Values[T comparable] struct {
	Dir    *Dir
	Format string // names the JSON of T and its version
	Zero   string // what the zero T means, for errors
}

// MostValue is the largest size of a file, in bytes.
const MostValue = 64 << 10

// An entry is the second line of a file.
type entry[T any] struct {
	Key   string `json:"key"`
	Value T      `json:"value"`
}

// A damage is an error of a file that can't be understood.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// Update replaces the value of key by what change makes of it, and returns that. change may be
// called twice: first without the lock, unless reads need it (ReadsLock), and again where the value
// has changed since. The value is valid beside an error: a file that can't be read is left alone,
// one that can't be understood is replaced. That others may write here is an error once.
func (v Values[T]) Update(ctx context.Context, key string, change func(T) T) (T, error) {
	file := v.Dir.File(key)
	v.Dir.look(file)
	old, value, err := v.update(ctx, file, key, change)
	var zero T
	onlyRead := value == old && value != zero // such a value is believed all the same
	if err == nil && !onlyRead {
		err = v.Dir.warning()
	}
	return value, err
}

// update is Update, and returns the last argument of change too.
func (v Values[T]) update(
	ctx context.Context, file, key string, change func(T) T,
) (before, value T, err error) {
	if !ReadsLock {
		// Nearly always nothing changes, and the lock isn't needed.
		before, err = v.read(file, key)
		value = change(before)
		if unchanged(before, value, err) {
			return before, value, err
		}
	}
	unlock, lockErr := v.Dir.Lock(ctx, file)
	if lockErr != nil {
		if ReadsLock { // a value of others counts for more than their next write
			before, err = v.read(file, key)
			value = change(before)
		}
		return before, value, errors.Join(err, lockErr)
	}
	defer unlock()
	seen := before
	before, err = v.read(file, key)
	if ReadsLock || before != seen {
		value = change(before)
	}
	if unchanged(before, value, err) {
		return before, value, err
	}
	return before, value, errors.Join(err, v.write(file, key, value))
}

// unchanged reports whether the file stays as it is: because it holds that value, or because it may
// hold another that can't be read.
func unchanged[T comparable](old, value T, readErr error) bool {
	if readErr != nil {
		return !errors.As(readErr, new(damage))
	}
	return old == value
}

func (v Values[T]) read(file, key string) (value T, err error) {
	data, err := v.Dir.fs.Read(file, MostValue)
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	} else if err != nil {
		return value, err
	}
	value, err = v.Decode(data, key)
	if errors.As(err, new(versionError)) {
		return value, damage{fmt.Errorf("%w: the key starts anew as one that %s: %s", err, v.Zero, file)}
	}
	if err != nil {
		return value, damage{fmt.Errorf("%s can't be understood, so the key starts anew as one that %s: %w",
			file, v.Zero, err)}
	}
	return value, nil
}

func (v Values[T]) write(file, key string, value T) error {
	if value == *new(T) {
		return v.Dir.Remove(file)
	}
	data, err := v.Encode(key, value)
	if err != nil {
		return fmt.Errorf("for %s: %w", file, err)
	}
	return v.Dir.Replace(file, data, true)
}

// Encode returns the file of key.
func (v Values[T]) Encode(key string, value T) ([]byte, error) {
	line, err := json.Marshal(entry[T]{Text(key), value})
	if err != nil {
		return nil, err
	}
	data := Seal(v.Format, append(line, '\n'))
	if len(data) > MostValue {
		return nil, fmt.Errorf("%d bytes, more than %d", len(data), MostValue)
	}
	return data, nil
}

// Decode reads the file of key.
func (v Values[T]) Decode(data []byte, key string) (value T, err error) {
	line, err := Unseal(v.Format, data)
	if err != nil {
		return value, err
	}
	var e entry[T]
	if err := json.Unmarshal(line, &e); err != nil {
		return value, err
	}
	if e.Key != Text(key) {
		return value, fmt.Errorf("it is the state of %.100q", e.Key)
	}
	return e.Value, nil
}

// Text returns s as JSON can hold it: as UTF-8.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// A Duration is a duration that JSON has as text, such as "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
