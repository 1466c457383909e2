package robotscache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/go-politeness/politeness/internal/statedir"
)

// Dir returns a Store that keeps one file per origin below path, a directory that the first Save
// creates. An empty path is the current directory.
//
// A file is written beside its place and renamed into it, so a reader sees the old one or the new
// one. Its checksum finds damage by a crash of the machine. A damaged file counts as none.
// Processes may share a directory. No record is ever deleted. You can delete files that are
// unchanged for 30 days, since they are of no use.
func Dir(path string) *DirStore { return &DirStore{statedir.New(path, statedir.OS{})} }

// A DirStore is a Store in a directory, made by [Dir]. Set it in Config.Store.
type DirStore struct{ dir *statedir.Dir }

// A file is
//
//	robotscache 1 <hex SHA-256 of all that follows this line>
//	<fileHeader as JSON>
//	<body>
//
// at <first two digits>/<hex SHA-256 of the origin>, as package statedir keeps it.
const (
	magic     = "robotscache 1"
	maxHeader = 64 << 10 // of a file: magic and fileHeader, where JSON may take six bytes for one
)

type fileHeader struct {
	Origin string `json:"origin"`
	Record
}

// Load implements [Store]. A damaged file is an error, and no record.
func (d *DirStore) Load(_ context.Context, origin string) (Record, bool, error) {
	file := d.dir.File(origin)
	data, err := d.dir.Read(file, maxHeader+MaxBody)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	} else if err != nil {
		return Record{}, false, fmt.Errorf("robotscache: %w", err)
	}
	r, err := DecodeRecord(data, origin)
	if err != nil {
		return Record{}, false, fmt.Errorf("robotscache: %s: %w", file, err)
	}
	return r, true, nil
}

// Save implements [Store].
func (d *DirStore) Save(_ context.Context, origin string, r Record) error {
	data, err := r.Encode(origin)
	if err == nil {
		// Without fsync, which is slow: a file that a crash of the machine damages is fetched again.
		err = d.dir.Replace(d.dir.File(origin), data, false)
	}
	if err != nil {
		err = fmt.Errorf("robotscache: %w", err)
	}
	return err
}

// Lock implements [Store]. It waits for 30 s at most, since a process may be stopped.
func (d *DirStore) Lock(ctx context.Context, origin string) (unlock func(), err error) {
	return d.dir.Claim(ctx, d.dir.File(origin)), nil
}

// Encode returns r as a Store may keep it, with its origin, a version and a checksum.
// [DecodeRecord] reads it. Use it in a Store of your own.
func (r Record) Encode(origin string) ([]byte, error) {
	r.Fetched = r.Fetched.UTC()
	r.Until = r.Until.UTC()
	// The body follows the header, since JSON would make it a third longer.
	body := r.Body
	r.Body = nil
	header, err := json.Marshal(fileHeader{origin, r})
	if err != nil {
		return nil, err
	}
	return statedir.Seal(magic, slices.Concat(header, []byte{'\n'}, body)), nil
}

// DecodeRecord reads the output of Encode for the same origin. Data that is damaged, of another
// version or of another origin is an error.
func DecodeRecord(data []byte, origin string) (Record, error) {
	rest, err := statedir.Unseal(magic, data)
	if err != nil {
		return Record{}, err
	}
	header, body, _ := bytes.Cut(rest, []byte{'\n'})
	var h fileHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return Record{}, err
	}
	// A Store may mix up its keys, and a file may have been copied to another's place.
	if h.Origin != origin {
		return Record{}, fmt.Errorf("a record of %.200q", h.Origin)
	}
	h.Body = body
	return h.Record, nil
}
