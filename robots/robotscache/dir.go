package robotscache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Dir returns a Store that keeps one file per origin below path. path is made
// when the first record is saved; an empty one is the current directory.
//
// A file is written beside its place and renamed into it, so a reader sees the
// old one or the new one; a checksum tells those that a crash of the machine
// damaged, which are as good as none. Processes may share a directory. Nothing is
// ever deleted: files unchanged for 30 days are of no use and can be.
func Dir(path string) *DirStore { return &DirStore{path} }

// A DirStore is a Store in a directory, made by [Dir].
type DirStore struct{ path string }

// A file is
//
//	robotscache 1 <hex SHA-256 of all that follows this line>
//	<fileHeader as JSON>
//	<body>
//
// at <first two digits>/<hex SHA-256 of the origin>.
const (
	magic     = "robotscache 1 "
	maxHeader = 32 << 10 // of a file: magic and fileHeader
)

type fileHeader struct {
	Origin       string    `json:"origin"`
	URL          string    `json:"url"`
	Status       int       `json:"status"`
	ETag         string    `json:"etag,omitempty"`
	LastModified string    `json:"lastModified,omitempty"`
	Fetched      time.Time `json:"fetched"`
	MaxAge       int64     `json:"maxAge,omitempty"` // nanoseconds
}

func (d *DirStore) file(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	name := hex.EncodeToString(sum[:])
	return filepath.Join(d.path, name[:2], name)
}

// Load implements [Store]. A damaged file is an error, and no record.
func (d *DirStore) Load(_ context.Context, origin string) (Record, bool, error) {
	file, err := os.Open(d.file(origin))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	} else if err != nil {
		return Record{}, false, fmt.Errorf("robotscache: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxHeader+MaxBody+1))
	if err != nil {
		return Record{}, false, fmt.Errorf("robotscache: %w", err)
	}
	r, err := decodeRecord(data, origin)
	if err != nil {
		return Record{}, false, fmt.Errorf("robotscache: %s: %w", file.Name(), err)
	}
	return r, true, nil
}

// Save implements [Store].
func (d *DirStore) Save(_ context.Context, origin string, r Record) (err error) {
	data, err := encodeRecord(origin, r)
	if err != nil {
		return fmt.Errorf("robotscache: %w", err)
	}
	name := d.file(origin)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("robotscache: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(name), "*.tmp")
	if err != nil {
		return fmt.Errorf("robotscache: %w", err)
	}
	// No Sync: it would cost a disk's turn for each origin, and what it would save
	// from a crash of the machine can be fetched again.
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		err = fmt.Errorf("robotscache: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return err
}

// encodeRecord writes a file.
func encodeRecord(origin string, r Record) ([]byte, error) {
	header, err := json.Marshal(fileHeader{
		origin, r.URL, r.Status, r.ETag, r.LastModified, r.Fetched.UTC(), int64(r.MaxAge),
	})
	if err != nil {
		return nil, err
	}
	rest := make([]byte, 0, len(header)+1+len(r.Body))
	rest = append(rest, header...)
	rest = append(rest, '\n')
	rest = append(rest, r.Body...)
	data := fmt.Appendf(make([]byte, 0, len(rest)+100), "%s%x\n", magic, sha256.Sum256(rest))
	return append(data, rest...), nil
}

// decodeRecord reads a file that should hold a record of origin.
func decodeRecord(data []byte, origin string) (Record, error) {
	data, ok := bytes.CutPrefix(data, []byte(magic))
	sum, rest, whole := bytes.Cut(data, []byte{'\n'})
	if !ok || !whole {
		return Record{}, errors.New("not a robots.txt record")
	}
	if fmt.Sprintf("%x", sha256.Sum256(rest)) != string(sum) {
		return Record{}, errors.New("damaged: its checksum is wrong")
	}
	header, body, _ := bytes.Cut(rest, []byte{'\n'})
	var h fileHeader
	if err := json.Unmarshal(header, &h); err != nil {
		return Record{}, err
	}
	if h.Origin != origin {
		return Record{}, fmt.Errorf("a record of %s", clip(h.Origin))
	}
	return Record{h.URL, h.Status, body, h.ETag, h.LastModified, h.Fetched, time.Duration(h.MaxAge)}, nil
}
