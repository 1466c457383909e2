// Package rivals runs the tests of colly and resty, at the versions of go.mod, through a Transport.
package rivals

import (
	_ "github.com/go-resty/resty/v2"
	_ "github.com/gocolly/colly/v2"
	_ "github.com/gocolly/colly/v2/queue"

	_ "github.com/go-politeness/politeness"
)
