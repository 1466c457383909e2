package recipes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/go-politeness/politeness"
	"github.com/go-politeness/politeness/crawl"
)

// Download writes a file, and returns its checksum. The body isn't kept in memory, so a file may be
// larger than the MaxBody of a crawl. Call it in Visit: it takes its turn beside the pages.
func Download(ctx context.Context, t *politeness.Transport, from, to string) (sum string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", from, resp.Status)
	}
	file, err := os.Create(to)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(file, hash), resp.Body)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// Disk crawls the files of a directory, as if a server had them. The Transport is made for that:
// its Base reads files. They have no robots.txt unless the directory has one.
func Disk(ctx context.Context, cfg politeness.Config, dir string, visit func(*crawl.Page)) error {
	cfg.Base = http.NewFileTransport(http.Dir(dir))
	t, err := politeness.New(cfg)
	if err != nil {
		return err
	}
	_, err = run(ctx, crawl.Config{
		Transport: t,
		Follow:    crawl.SameHost,
		Visit: func(_ context.Context, p *crawl.Page) error {
			visit(p)
			return nil
		},
	}, "http://localhost/") // any name will do
	return err
}
