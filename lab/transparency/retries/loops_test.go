package retries_test

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/PuerkitoBio/rehttp"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	backoff4 "github.com/cenkalti/backoff/v4"
	backoff5 "github.com/cenkalti/backoff/v5"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/go-resty/resty/v2"
	"github.com/gojek/heimdall/v7"
	"github.com/gojek/heimdall/v7/httpclient"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/sethgrid/pester"
	"github.com/ybbus/httpretry"

	"github.com/go-politeness/politeness"
)

// tries is how often each loop tries what fails.
const tries = 4

// A loop is a library that gets a URL by a transport again and again.
type loop struct {
	name string
	get  func(ctx context.Context, transport http.RoundTripper, url string) error
	// Number of tries of a URL that is disallowed, and of one that redirects to such a URL.
	disallowed, redirect int
}

// byThemselves are the loops as their guides show them.
var byThemselves = []loop{
	{name: "cenkalti/backoff v4", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		policy := backoff4.WithMaxRetries(backoff4.NewExponentialBackOff(), tries-1)
		return backoff4.Retry(func() error { return get(ctx, transport, url) }, policy)
	}},
	{name: "cenkalti/backoff v5", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		_, err := backoff5.Retry(ctx, func() (bool, error) { return true, get(ctx, transport, url) }, backoff5.WithMaxTries(tries))
		return err
	}},
	{name: "AWS SDK", disallowed: 1, redirect: 1, get: getByAWS},
	{name: "rehttp, temporary", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return getByRehttp(ctx, transport, url, rehttp.RetryTemporaryErr())
	}},
	{name: "rehttp, timeout", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return getByRehttp(ctx, transport, url, rehttp.RetryTimeoutErr())
	}},
	{name: "go-retryablehttp", disallowed: tries, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return getByRetryable(ctx, transport, url, retryablehttp.DefaultRetryPolicy)
	}},
	{name: "failsafe-go", disallowed: tries, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		policy := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(tries).WithDelay(time.Second)
		return get(ctx, failsafehttp.NewRoundTripper(transport, policy.Build()), url)
	}},
	{name: "resty", disallowed: tries, redirect: tries, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		client := resty.NewWithClient(&http.Client{Transport: transport}).SetRetryCount(tries - 1)
		_, err := client.R().SetContext(ctx).Get(url)
		return err
	}},
	{name: "heimdall", disallowed: tries, redirect: tries, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		client := httpclient.NewClient(
			httpclient.WithHTTPClient(&http.Client{Transport: transport}),
			httpclient.WithRetryCount(tries-1),
			httpclient.WithRetrier(heimdall.NewRetrier(heimdall.NewConstantBackoff(time.Second, time.Millisecond))),
		)
		return do(ctx, client, url)
	}},
	{name: "pester", disallowed: tries, redirect: tries, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		client := pester.NewExtendedClient(&http.Client{Transport: transport})
		client.MaxRetries = tries
		return do(ctx, client, url)
	}},
	{name: "httpretry", disallowed: tries, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return do(ctx, httpretry.NewCustomClient(&http.Client{Transport: transport}, httpretry.WithMaxRetryCount(tries-1)), url)
	}},
}

// withALine are the loops that don't stop by themselves, with the line of docs/migrating.md.
var withALine = []loop{
	{name: "go-retryablehttp", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return getByRetryable(ctx, transport, url, func(ctx context.Context, resp *http.Response, err error) (bool, error) {
			if isRefused(err) {
				return false, err
			}
			return retryablehttp.DefaultRetryPolicy(ctx, resp, err)
		})
	}},
	{name: "failsafe-go", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		policy := failsafehttp.NewRetryPolicyBuilder().WithMaxAttempts(tries).WithDelay(time.Second).
			AbortIf(func(_ *http.Response, err error) bool { return isRefused(err) })
		return get(ctx, failsafehttp.NewRoundTripper(transport, policy.Build()), url)
	}},
	{name: "resty", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		client := resty.NewWithClient(&http.Client{Transport: transport}).SetRetryCount(tries - 1).
			AddRetryCondition(func(_ *resty.Response, err error) bool { return err != nil && !isRefused(err) })
		_, err := client.R().SetContext(ctx).Get(url)
		return err
	}},
	{name: "httpretry", disallowed: 1, redirect: 1, get: func(ctx context.Context, transport http.RoundTripper, url string) error {
		return do(ctx, httpretry.NewCustomClient(
			&http.Client{Transport: transport},
			httpretry.WithMaxRetryCount(tries-1),
			httpretry.WithRetryPolicy(func(status int, err error) bool {
				return status >= 500 || err != nil && !isRefused(err)
			}),
		), url)
	}},
}

func isRefused(err error) bool {
	refused, ok := errors.AsType[*politeness.Error](err)
	return ok && !refused.Temporary()
}

// A doer is a client.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}

func get(ctx context.Context, transport http.RoundTripper, url string) error {
	return do(ctx, &http.Client{Transport: transport}, url)
}

func do(ctx context.Context, client doer, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func getByRehttp(ctx context.Context, transport http.RoundTripper, url string, on rehttp.RetryFn) error {
	all := rehttp.RetryAll(rehttp.RetryMaxRetries(tries-1), on)
	return get(ctx, rehttp.NewTransport(transport, all, rehttp.ConstDelay(time.Second)), url)
}

func getByRetryable(ctx context.Context, transport http.RoundTripper, url string, check retryablehttp.CheckRetry) error {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: transport}
	client.RetryMax = tries - 1
	client.CheckRetry = check
	client.Logger = nil
	req, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// A sendError is what the SDK's client makes of each error of its HTTPClient:
// smithy-go/transport/http.RequestSendError.
type sendError struct{ error }

func (e sendError) ConnectionError() bool { return true }
func (e sendError) Unwrap() error         { return e.error }

func getByAWS(ctx context.Context, transport http.RoundTripper, url string) error {
	retryer := retry.NewStandard()
	for attempt := 1; ; attempt++ {
		err := get(ctx, transport, url)
		if err == nil || attempt == tries || !retryer.IsErrorRetryable(sendError{err}) {
			return err
		}
		delay, err := retryer.RetryDelay(attempt, err)
		if err != nil {
			return err
		}
		time.Sleep(delay)
	}
}
