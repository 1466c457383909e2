package rivals_test

import (
	_ "github.com/PuerkitoBio/rehttp"
	_ "github.com/carlmjohnson/requests"
	_ "github.com/coder/websocket"
	_ "github.com/dghubble/sling"
	_ "github.com/go-resty/resty/v2"
	_ "github.com/gocolly/colly/v2"
	_ "github.com/gojek/heimdall/v7/httpclient"
	_ "github.com/gregjones/httpcache"
	_ "github.com/hashicorp/go-retryablehttp"
	_ "github.com/parnurzeal/gorequest"
	_ "github.com/sethgrid/pester"
	_ "github.com/ybbus/httpretry"
	_ "gopkg.in/h2non/gentleman.v2"

	// What their tests import.
	_ "github.com/aybabtme/iocontrol"
	_ "github.com/elazarl/goproxy"
	_ "github.com/hashicorp/go-hclog"
	_ "github.com/nbio/st"
	_ "github.com/stretchr/testify/assert"
	_ "github.com/stretchr/testify/mock"
	_ "github.com/stretchr/testify/require"

	_ "github.com/go-politeness/politeness"
)

const (
	userAgent = "the User-Agent is the crawler's, whatever the request says"
	noHost    = "a URL without a host is refused, also where the base is a fake that would answer it"
	sleeps    = "it fails where a sleep is 5 ms late, as on a busy machine"
	resends   = "a base that sends a request again by itself opens at most three connections in a try: it goes around a Transport, not below"
)

// rivals are whose tests are run. Each difference has the reason why it should be one.
var rivals = []rival{
	{
		module: "github.com/gocolly/colly/v2", name: "colly", fewest: 60,
		differences: map[string]string{
			"TestEnvSettings": userAgent,
			"TestUserAgent":   userAgent,
		},
	},
	{
		module: "github.com/go-resty/resty/v2", name: "resty", fewest: 300,
		unsteady: map[string]string{
			"TestClientRetryWait":                        sleeps,
			"TestClientRetryWaitCallback":                sleeps,
			"TestClientRetryWaitCallbackSwitchToDefault": sleeps,
			"TestClientRetryWaitCallbackTooLong":         sleeps,
			"TestClientRetryWaitCallbackTooShort":        sleeps,
		},
	},
	{
		module: "github.com/hashicorp/go-retryablehttp", name: "retryablehttp", fewest: 60,
		differences: map[string]string{"TestRoundTripper_TransportFailureErrorHandling": resends},
	},
	{module: "github.com/dghubble/sling", name: "sling", fewest: 30},
	{module: "github.com/gojek/heimdall/v7", dir: "httpclient", name: "httpclient", fewest: 15},
	{module: "github.com/parnurzeal/gorequest", name: "gorequest", fewest: 20},
	{
		module: "github.com/PuerkitoBio/rehttp", name: "rehttp", fewest: 40,
		differences: map[string]string{"TestTransport_RoundTripTimeouts": resends},
	},
	{module: "gopkg.in/h2non/gentleman.v2", name: "gentleman", fewest: 75},
	{
		module: "github.com/carlmjohnson/requests", name: "requests", fewest: 40,
		differences: map[string]string{"TestErrorKind": noHost},
	},
	{module: "github.com/coder/websocket", name: "websocket", fewest: 200},
	{module: "github.com/sethgrid/pester", name: "pester", fewest: 20},
	{module: "github.com/ybbus/httpretry", name: "httpretry", fewest: 60},
	{module: "github.com/gregjones/httpcache", name: "httpcache", fewest: 30},
}
