package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/bartventer/httpcache/store"
	"github.com/bartventer/httpcache/store/driver"
)

// maxPages is how many bytes of pages a folder may hold when it is opened; the oldest go first.
const maxPages = 1 << 30

// pages is a folder of files, one for each entry of the cache, each named after the hash of its
// key. If a run is killed, the cache's own store of files may leave half a page to the next run.
// This store writes another file and renames it, and each entry begins with its hash.
type pages string

func init() {
	store.Register("pages", driver.DriverFunc(func(u *url.URL) (driver.Conn, error) {
		return pages(u.Query().Get("dir")), nil
	}))
}

// openPages makes dir if there is none, and returns its name for the cache.
func openPages(dir string) (dsn string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("-cache: %w", err)
	}
	if err := prune(dir, maxPages); err != nil {
		return "", fmt.Errorf("-cache: %w", err)
	}
	return "pages://?dir=" + url.QueryEscape(dir), nil
}

// prune removes the oldest files until those in dir have at most the given number of bytes.
func prune(dir string, most int64) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.page*"))
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil { // another process may have been quicker
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		most -= f.Size()
		if most >= 0 {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (p pages) file(key string) string {
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(string(p), hex.EncodeToString(sum[:])+".page")
}

// Get returns the entry; a damaged one counts as missing.
func (p pages) Get(key string) ([]byte, error) {
	text, err := os.ReadFile(p.file(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, driver.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	if len(text) < sha256.Size {
		return nil, driver.ErrNotExist
	}
	entry := text[sha256.Size:]
	sum := sha256.Sum256(entry)
	if !bytes.Equal(sum[:], text[:sha256.Size]) {
		return nil, driver.ErrNotExist
	}
	return entry, nil
}

// Set writes the entry, all or nothing.
func (p pages) Set(key string, entry []byte) (err error) {
	f, err := os.CreateTemp(string(p), "*.page-new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	sum := sha256.Sum256(entry)
	_, err = f.Write(append(sum[:], entry...))
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), p.file(key))
}

func (p pages) Delete(key string) error {
	if err := os.Remove(p.file(key)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return driver.ErrNotExist
}
