package browsertest

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Session is a page in a browser that gets the keys of a keyboard, one after the other. The
// browser is asked by its DevTools protocol, over a pair of pipes.
type Session struct {
	t      *testing.T
	in     *bufio.Reader // messages of the browser, each with a NUL at its end
	out    *os.File
	id     string // of the page, by which the protocol addresses it
	number int    // of the last message
}

// Open opens a page, at target ("/" and so on), in a window of the given size.
func Open(t *testing.T, browser string, page http.Handler, target string, width, height int) *Session {
	t.Helper()
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	toBrowser, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// The browser leaves processes behind for a moment, which still write to their directory. So it
	// isn't t.TempDir, whose removal would fail.
	profile, err := os.MkdirTemp("", "browsertest") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), browser,
		"--headless", "--no-first-run", "--user-data-dir="+profile, "--no-sandbox", "--disable-gpu",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		fmt.Sprintf("--window-size=%d,%d", width, height), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // its descriptors 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	t.Cleanup(func() {
		out.Close() // ends the browser
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
		_ = os.RemoveAll(profile)
	})
	s := &Session{t: t, in: bufio.NewReader(in), out: out}
	var made struct{ TargetID string }
	s.call("Target.createTarget", map[string]any{"url": server.URL + target}, &made)
	var attached struct{ SessionID string }
	s.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	s.id = attached.SessionID
	// The page may be as narrow as on a phone, which no window of the browser can be.
	s.call("Emulation.setDeviceMetricsOverride", map[string]any{
		"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
	}, nil)
	s.call("Page.bringToFront", nil, nil)
	s.Until(fmt.Sprintf(`location.href.startsWith(%q) && document.readyState === "complete"`, server.URL))
	return s
}

// call calls a method of the DevTools protocol, and reads its result.
func (s *Session) call(method string, params, result any) {
	s.t.Helper()
	s.number++
	message := map[string]any{"id": s.number, "method": method, "params": params}
	if params == nil {
		message["params"] = map[string]any{}
	}
	if s.id != "" {
		message["sessionId"] = s.id
	}
	text, err := json.Marshal(message)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.out.Write(append(text, 0)); err != nil {
		s.t.Fatal(err)
	}
	for {
		text, err := s.in.ReadBytes(0)
		if err != nil {
			s.t.Fatalf("%s: %v", method, err)
		}
		var got struct {
			ID     int
			Result json.RawMessage
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(text[:len(text)-1], &got); err != nil {
			s.t.Fatalf("%s: %v", method, err)
		}
		if got.ID != s.number {
			continue // an event
		}
		if got.Error != nil && strings.Contains(got.Error.Message, "execution context") {
			return // the page isn't there yet: there is no value
		}
		if got.Error != nil {
			s.t.Fatalf("%s: %s", method, got.Error.Message)
		}
		if result == nil {
			return
		}
		if err := json.Unmarshal(got.Result, result); err != nil {
			s.t.Fatalf("%s: %v", method, err)
		}
		return
	}
}

// Eval returns the value of a JavaScript expression in the page, as text.
func (s *Session) Eval(expression string) string {
	s.t.Helper()
	var got struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	s.call("Runtime.evaluate", map[string]any{
		"expression": expression, "returnByValue": true, "awaitPromise": true,
	}, &got)
	if got.ExceptionDetails != nil {
		s.t.Fatalf("%s: %s", expression, got.ExceptionDetails.Exception.Description)
	}
	return fmt.Sprint(got.Result.Value)
}

// Until waits until a JavaScript expression is true.
func (s *Session) Until(expression string) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for s.Eval(expression) != "true" {
		select {
		case <-deadline:
			s.t.Fatalf("%s never came true", expression)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// codes are those of the keys that Press knows.
var codes = map[string]int{
	"Tab": 9, "Enter": 13, " ": 32, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
	"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}

// Press presses a key, such as "Tab", "Shift+Tab", "Enter" or " ", and lets it go.
func (s *Session) Press(key string) {
	s.t.Helper()
	name, isShifted := strings.CutPrefix(key, "Shift+")
	code, ok := codes[name]
	if !ok && len(name) != 1 {
		s.t.Fatalf("no key %q", key)
	}
	event := map[string]any{"type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code}
	switch {
	case name == "Enter":
		event["text"] = "\r"
	case len(name) == 1:
		event["text"] = name
	}
	if isShifted {
		event["modifiers"] = 8
	}
	s.call("Input.dispatchKeyEvent", event, nil)
	event["type"] = "keyUp"
	delete(event, "text")
	s.call("Input.dispatchKeyEvent", event, nil)
}

// Focus focuses the element of a CSS selector, as a click into it would.
func (s *Session) Focus(selector string) {
	s.t.Helper()
	s.Eval(fmt.Sprintf("document.querySelector(%q).focus()", selector))
}

// stops is a script that names the elements that a keyboard has to come to.
//
//go:embed stops.js
var stops string

// CheckTab reports the findings of Tabs as errors.
func (s *Session) CheckTab() {
	s.t.Helper()
	for _, finding := range s.Tabs() {
		s.t.Error(finding)
	}
}

// Tabs goes through the page by Tab, and back by Shift and Tab. Each element that a person can use
// has to get the focus, in the order of the document, and has to be in sight and marked then. A
// part that scrolls may get the focus as well. Tabs returns what isn't so.
func (s *Session) Tabs() (findings []string) {
	s.t.Helper()
	s.Eval(stops)
	if n := s.Eval("stopsOfTheTest.positive()"); n != "0" {
		findings = append(findings, n+" elements have an order of their own (tabindex)")
	}
	var all []string
	if err := json.Unmarshal([]byte(s.Eval("JSON.stringify(stopsOfTheTest.all())")), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, key := range []string{"Tab", "Shift+Tab"} {
		had, found := s.tabs(key, all)
		findings = append(findings, found...)
		want := slices.Clone(all)
		if key != "Tab" {
			slices.Reverse(want)
		}
		if !slices.Equal(had, want) {
			findings = append(findings, fmt.Sprintf("%s comes to\n  %s\nwant\n  %s",
				key, strings.Join(had, "\n  "), strings.Join(want, "\n  ")))
		}
	}
	return findings
}

// tabs presses a key until the focus leaves the page. It returns which of all had the focus.
func (s *Session) tabs(key string, all []string) (had, findings []string) {
	s.t.Helper()
	var seen []string // parts that scroll included
	for {
		s.Press(key)
		var now struct {
			Name, Seen string
			Scrolls    bool
		}
		if err := json.Unmarshal([]byte(s.Eval("JSON.stringify(stopsOfTheTest.now())")), &now); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case now.Name == "", len(seen) > 1 && now.Name == seen[0]:
			return had, findings // it has left the page, or begins anew
		case slices.Contains(seen, now.Name):
			return had, append(findings, fmt.Sprintf("%s: the focus doesn't get beyond %s", key, seen[len(seen)-1]))
		case now.Seen != "seen":
			findings = append(findings, fmt.Sprintf("%s: %s is %s", key, now.Name, now.Seen))
		}
		seen = append(seen, now.Name)
		if slices.Contains(all, now.Name) || !now.Scrolls {
			had = append(had, now.Name)
		}
	}
}
