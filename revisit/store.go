package revisit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/go-politeness/politeness/internal/statedir"
)

// A Store remembers pages for a Transport. Its methods are called from many goroutines. key is the
// URL of a page, without userinfo and fragment. A response may also depend on userinfo, on a Host
// that isn't that of the URL, and on the headers Accept, Accept-Language, Authorization and Cookie.
// If the request has any of these, key ends with a space and a hash of them.
type Store interface {
	// Load returns the page that is saved under key. ok is false if there is none.
	Load(ctx context.Context, key string) (p Page, ok bool, err error)
	// Save stores p under key, wholly or not at all. If p is the zero Page, Save removes the entry.
	Save(ctx context.Context, key string, p Page) error
}

// mostRemembered is the number of pages that a Transport without a Store remembers.
const mostRemembered = 10_000

// A memory is the Store of a Transport that has none.
type memory struct {
	mu    sync.Mutex
	pages *simplelru.LRU[string, Page]
}

func newMemory() *memory {
	pages, _ := simplelru.NewLRU[string, Page](mostRemembered, nil) // an error is for 0 and less
	return &memory{pages: pages}
}

// Load implements Store.
func (m *memory) Load(_ context.Context, key string) (p Page, ok bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok = m.pages.Get(key)
	return p, ok, nil
}

// Save implements Store.
func (m *memory) Save(_ context.Context, key string, p Page) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.IsZero() {
		m.pages.Remove(key)
	} else {
		m.pages.Add(key, p)
	}
	return nil
}

// A DirStore is a Store in a directory, which outlives the process. Dir makes it. Set it in
// Transport.Store.
type DirStore struct{ dir *statedir.Dir }

// Dir returns the Store in the directory at path, with a file for each page. Use it for up to some
// 100,000 pages. The directory is made with the first page. Files have the mode 0600, since they
// name the pages that the program reads. If a file is damaged, or of a later version, Load returns
// an error, and the page is requested as a new page. Several processes may use one directory.
func Dir(path string) *DirStore { return &DirStore{statedir.New(path, statedir.OS{})} }

const (
	magic    = "politeness-page 1" // the first word of a file, and its version
	mostFile = 64 << 10
)

// Load implements Store.
func (s *DirStore) Load(_ context.Context, key string) (p Page, ok bool, err error) {
	file := s.dir.File(key)
	sealed, err := s.dir.Read(file, mostFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Page{}, false, nil
	}
	if len(sealed) == 0 && err != nil {
		return Page{}, false, err
	}
	warning := err // others may write here; the data was read anyway
	data, err := statedir.Unseal(magic, sealed)
	if err != nil {
		return Page{}, false, fmt.Errorf("%s: %w", file, err)
	}
	saved, encoded, _ := bytes.Cut(data, []byte{'\n'})
	if string(saved) != key {
		return Page{}, false, fmt.Errorf("%s: it is the page %.100q", file, saved)
	}
	if err := p.UnmarshalBinary(encoded); err != nil {
		return Page{}, false, fmt.Errorf("%s: %w", file, err)
	}
	return p, true, warning
}

// Save implements Store.
func (s *DirStore) Save(_ context.Context, key string, p Page) error {
	file := s.dir.File(key)
	if p.IsZero() {
		return s.dir.Remove(file)
	}
	data := append([]byte(key), '\n')
	data, _ = p.AppendBinary(data)
	// After a power cut some pages are asked for early, which is no reason to wait for the disk.
	return s.dir.Replace(file, statedir.Seal(magic, data), false)
}
