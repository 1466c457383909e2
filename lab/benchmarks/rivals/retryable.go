package rivals

import (
	"net/http"

	"github.com/hashicorp/go-retryablehttp"
)

// NewRetryable wraps base with go-retryablehttp as it comes: it retries, and has no limits of its
// own.
func NewRetryable(base http.RoundTripper) http.RoundTripper {
	c := retryablehttp.NewClient()
	c.Logger = nil
	c.HTTPClient = &http.Client{Transport: base}
	return &retryablehttp.RoundTripper{Client: c}
}
