// A driver of fasthttp with the settings of muffet --proxy: a tunnel for each connection, http URLs
// included. The first argument is the address of the proxy. Nothing else in the program uses
// politeness.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpproxy"
)

func main() {
	client := &fasthttp.Client{
		MaxConnsPerHost:          512,
		Dial:                     fasthttpproxy.FasthttpHTTPDialerTimeout(os.Args[1], 5*time.Second),
		DialDualStack:            true,
		DisablePathNormalizing:   true,
		NoDefaultUserAgentHeader: true,
	}
	var all sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		url := lines.Text()
		all.Add(1)
		go func() {
			defer all.Done()
			var req fasthttp.Request
			var res fasthttp.Response
			req.SetRequestURI(url)
			req.SetConnectionClose()
			req.Header.Add("Accept", "*/*")
			if err := client.DoTimeout(&req, &res, 2*time.Minute); err != nil {
				fmt.Println(url, err)
				return
			}
			fmt.Printf("%s %d %.100q\n", url, res.StatusCode(), res.Body())
		}()
	}
	all.Wait()
}
