// Command crawlsvg makes docs/crawl.svg. It runs the first program of README.md against a small
// site on loopback and draws its output as a terminal would show it.
//
//	go -C lab generate ./crawlsvg
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

//go:generate go run . ../../README.md ../../docs/crawl.svg

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: crawlsvg README.md crawl.svg")
	}
	readme, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	output, err := crawl(context.Background(), string(readme))
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[2], draw(strings.Split(strings.TrimSpace(output), "\n")), 0o600); err != nil {
		log.Fatal(err)
	}
}

// paths are what the program is asked to fetch.
var paths = []string{"/", "/private/diary", "/busy", "/about"}

// crawl returns what the first complete program of the readme prints when it fetches the paths.
func crawl(ctx context.Context, readme string) (string, error) {
	_, after, ok := strings.Cut(readme, "```go\npackage main")
	program, _, closed := strings.Cut(after, "```")
	if !ok || !closed {
		return "", errors.New("the readme has no complete program")
	}
	dir, err := os.MkdirTemp("", "crawlsvg")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte("package main"+program), 0o600); err != nil {
		return "", err
	}

	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	go func() { _ = http.Serve(listener, site()) }() //nolint:gosec // one client, ours, and on loopback

	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return "", err
	}
	args := []string{"run", file}
	for _, path := range paths {
		args = append(args, "http://localhost:"+port+path)
	}
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return strings.ReplaceAll(string(output), "localhost:"+port, "localhost:8080"), nil
}

// site wants two seconds between requests and has a page that is always too busy.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "User-agent: *\nDisallow: /private\nCrawl-delay: 2\n")
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello, crawler") })
	return mux
}

// colours are those in which evidence.Console shows what a line is about.
var colours = map[string]string{
	"waiting": "#39c5cf", "host free": "#3fb950",
	"disallowed": "#d29922", "host blocked": "#d29922", "fetched": "#d29922",
}

// columns is how many characters a line of the picture has; longer ones go on in the next.
const columns = 112

// draw returns the picture of a terminal with these lines.
func draw(lines []string) []byte {
	const row, left, top = 19, 16, 30
	var text bytes.Buffer
	y := top
	for _, line := range lines {
		// A line of the Console is a time of 8 digits and colons, and a verb of 13 columns.
		var verb, colour string
		if len(line) > 23 && line[2] == ':' && line[5] == ':' {
			verb = line[9:22]
			colour = colours[strings.TrimSpace(verb)]
		}
		for i, part := range wrap(line) {
			fmt.Fprintf(&text, `<text x="%d" y="%d">`, left, y)
			if i == 0 && colour != "" {
				fmt.Fprintf(&text, `%s<tspan fill="%s">%s</tspan>%s`,
					escape(part[:9]), colour, escape(verb), escape(part[22:]))
			} else {
				text.WriteString(escape(part))
			}
			text.WriteString("</text>\n")
			y += row
		}
	}
	var b bytes.Buffer
	const width = columns*8 + 2*left
	height := y
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" `+
		`role="img" aria-label="What the program prints, line by line">
<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#c9d1d9">
%s</g>
</svg>
`, width, height, width, height, text.Bytes())
	return b.Bytes()
}

// escape returns s with spaces that no viewer makes fewer.
func escape(s string) string { return strings.ReplaceAll(html.EscapeString(s), " ", "\u00a0") }

// wrap breaks a line after a space.
func wrap(line string) []string {
	var parts []string
	for utf8.RuneCountInString(line) > columns {
		end := strings.LastIndexByte(line[:columns], ' ') + 1
		if end <= 23 {
			break // one long word
		}
		parts = append(parts, line[:end])
		line = strings.Repeat(" ", 23) + line[end:]
	}
	return append(parts, line)
}
