package hints_test

import (
	"fmt"
	"net/http"

	"github.com/go-politeness/politeness/hostlimit/hints"
)

// A response that refuses becomes the Outcome that a Lease observes.
func ExampleOutcome() {
	resp := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}
	resp.Header.Set("Retry-After", "120")

	o := hints.Outcome(resp)
	fmt.Println(o.Status, o.RetryAfter)
	// Output: 429 2m0s
}
