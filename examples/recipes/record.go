package recipes

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"

	"github.com/go-politeness/politeness"
)

// A Record keeps answers in a directory, and gives them out again. Over: the Transport. Put it into
// the Client of a crawl: a page that is there costs its site no request and no wait. It doesn't ask
// whether an answer is old, and knows an answer by its URL alone: take a directory for each
// session. The example replay is a whole program.
type Record struct {
	Over http.RoundTripper
	Dir  string
}

// RoundTrip implements http.RoundTripper.
func (r Record) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return r.Over.RoundTrip(req)
	}
	key := sha256.Sum256([]byte(req.URL.String()))
	name := filepath.Join(r.Dir, hex.EncodeToString(key[:]))
	if kept, err := os.ReadFile(name); err == nil {
		return http.ReadResponse(bufio.NewReader(bytes.NewReader(kept)), req)
	}
	resp, err := r.Over.RoundTrip(req)
	if err != nil || !worthKeeping(resp) {
		return resp, err
	}
	dump, err := httputil.DumpResponse(resp, true) // the body can be read again
	if err != nil {
		resp.Body.Close()
		return nil, err
	}
	// A file that is written in full has its name at once: a kill leaves no half of one.
	if err := os.WriteFile(name+".part", dump, 0o600); err != nil {
		resp.Body.Close()
		return nil, err
	}
	if err := os.Rename(name+".part", name); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// worthKeeping reports whether a response is final: a page, a redirect, or a page that doesn't
// exist. Refusals and failures aren't.
func worthKeeping(resp *http.Response) bool {
	if politeness.Challenged(resp) != nil {
		return false // a captcha may have status 200
	}
	switch status := resp.StatusCode; status {
	case http.StatusNotFound, http.StatusGone:
		return true
	default:
		return status/100 == 2 || status/100 == 3 && status != http.StatusNotModified
	}
}
