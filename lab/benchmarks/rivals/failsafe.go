package rivals

import (
	"net/http"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
)

// NewFailsafe wraps base with failsafe-go's own transport: its retry policy for HTTP, a smooth rate
// limiter and a bulkhead. The policies have no keys, so this is one host's; robots.txt, a budget
// and evidence it doesn't have.
func NewFailsafe(base http.RoundTripper, t Terms) http.RoundTripper {
	const patience = time.Minute                            // without it they refuse instead of waiting
	retries := failsafehttp.NewRetryPolicyBuilder().Build() //nolint:bodyclose // no response
	//nolint:bodyclose // as above
	rate := ratelimiter.NewSmoothBuilderWithMaxRate[*http.Response](t.gap()).WithMaxWaitTime(patience).Build()
	//nolint:bodyclose // as above
	slots := bulkhead.NewBuilder[*http.Response](uint(t.Slots)).WithMaxWaitTime(patience).Build()
	return failsafehttp.NewRoundTripper(base, retries, rate, slots)
}
