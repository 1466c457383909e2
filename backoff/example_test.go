package backoff_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	cenkalti "github.com/cenkalti/backoff/v4"

	"github.com/go-politeness/politeness/backoff"
)

func ExampleFibonacci() {
	var f backoff.Fibonacci
	for refusals := range 8 {
		fmt.Print(f.Delay(refusals+1), " ")
	}
	// Output: 1s 1s 2s 3s 5s 8s 13s 21s
}

// The slowdown of a crawler that must not be complained about: refused, blocked
// and failing hosts are left alone from a quarter of an hour up to a day.
func ExampleRefusals() {
	policy := backoff.Refusals{
		Policy:   backoff.Doubling{Jitter: [2]float64{0.10, 0.20}},
		Statuses: slices.Concat([]int{403, 503}, backoff.Range(520, 530)),
		Network:  true,
	}
	d := policy.Delay(3)
	fmt.Println(policy.Counts(503), d >= 66*time.Minute && d <= 72*time.Minute)
	// Output: true true
}

func ExampleRetryAfter() {
	now := time.Now()
	for _, value := range []string{"120", "Sun, 06 Nov 1994 08:49:37 GMT", "soon"} {
		// The host's Date says that its clock is 20 s behind the date it names.
		d, ok := backoff.RetryAfter(value, "Sun, 06 Nov 1994 08:49:17 GMT", now)
		fmt.Println(d, ok)
	}
	// Output:
	// 2m0s true
	// 20s true
	// 0s false
}

// Any loop that takes a BackOff of cenkalti's package takes these.
func ExampleFibonacci_BackOff() {
	tries := 0
	err := cenkalti.Retry(func() error {
		tries++
		return errors.New("no luck")
	}, cenkalti.WithMaxRetries(backoff.Fibonacci{Unit: time.Microsecond}.BackOff(), 3))
	fmt.Println(tries, err)
	// Output: 4 no luck
}
