package rivals_test

import (
	_ "github.com/go-resty/resty/v2"
	_ "github.com/gocolly/colly/v2"

	_ "github.com/go-politeness/politeness"
)

const userAgent = "the User-Agent is the crawler's, whatever the request says"

// rivals are whose tests are run. Each difference has the reason why it should be one.
var rivals = []rival{
	{
		module: "github.com/gocolly/colly/v2", pkg: "colly", fewest: 60,
		file: "http_backend.go", hook: "h.Client.Do(request)", client: "h.Client",
		differences: map[string]string{
			"TestEnvSettings": userAgent,
			"TestUserAgent":   userAgent,
		},
	},
	{
		module: "github.com/go-resty/resty/v2", pkg: "resty", fewest: 300,
		file: "client.go", hook: "c.httpClient.Do(req.RawRequest)", client: "c.httpClient",
	},
}
