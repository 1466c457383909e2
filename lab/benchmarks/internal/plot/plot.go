// Package plot draws small SVG figures that can be read on a light and on a dark page.
package plot

import (
	"bytes"
	"fmt"
	"html"
	"math"
)

// A Plot draws itself.
type Plot interface{ SVG() []byte }

const (
	width  = 760
	left   = 230 // of it, room for names
	right  = 90  // room for figures
	inner  = width - left - right
	top    = 46
	bottom = 40
)

type canvas struct {
	bytes.Buffer
	height int
}

// begin starts an SVG image. The colours are those of the page that shows it, by the reader's own
// choice of light or dark, and stay legible where a viewer knows no such choice.
func begin(title, subtitle string, height int) *canvas {
	c := &canvas{height: height}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #57606a }
.title { font-size: 15px; font-weight: 600; fill: #24292f }
.grid { stroke: #8c959f; stroke-opacity: .35 }
.mark { stroke: #57606a; stroke-dasharray: 4 3 }
.ours { fill: #0969da } .rival { fill: #8c959f } .bad { fill: #cf222e } .band { fill: #cf222e; fill-opacity: .1 }
.dot { fill-opacity: .55 }
@media (prefers-color-scheme: dark) {
text { fill: #9198a1 } .title { fill: #e6edf3 } .mark { stroke: #9198a1 }
.ours { fill: #4493f8 } .rival { fill: #7d8590 } .bad { fill: #f85149 } .band { fill: #f85149; fill-opacity: .16 }
}
</style>
`, width, height, width, height, html.EscapeString(title))
	c.text(0, 16, "", "title", title)
	c.text(0, 33, "", "", subtitle)
	return c
}

func (c *canvas) end() []byte {
	c.WriteString("</svg>\n")
	return c.Bytes()
}

func (c *canvas) text(x, y float64, anchor, class, s string) {
	if anchor != "" {
		anchor = fmt.Sprintf(` text-anchor="%s"`, anchor)
	}
	if class != "" {
		class = fmt.Sprintf(` class="%s"`, class)
	}
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f"%s%s>%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

// Bars are horizontal bars in groups.
type Bars struct {
	Title, Subtitle string
	Groups          []Group
	Format          func(float64) string // of a value
	Log             bool                 // logarithmic, for values that are hundreds of times apart
}

// A Group is a set of bars under a heading.
type Group struct {
	Name string
	Bars []Bar
}

// A Bar is one value, drawn in our colour if it's ours.
type Bar struct {
	Name  string
	Value float64
	Ours  bool
}

// SVG implements Plot.
func (p Bars) SVG() []byte {
	const row, heading = 19, 24
	height := top + bottom
	lo := math.Inf(1)
	hi := math.Inf(-1)
	for _, g := range p.Groups {
		height += len(g.Bars) * row
		if g.Name != "" {
			height += heading
		}
		for _, b := range g.Bars {
			if b.Value > 0 {
				lo = min(lo, b.Value)
				hi = max(hi, b.Value)
			}
		}
	}
	if lo > hi { // nothing to be seen
		lo = 1
		hi = 1
	}
	x, ticks := linear(hi)
	if p.Log {
		x, ticks = logarithmic(lo, hi)
	}

	c := begin(p.Title, p.Subtitle, height)
	floor := float64(height - bottom + 4)
	for _, v := range ticks {
		c.line(x(v), top, x(v), floor, "grid")
		c.text(x(v), floor+15, "middle", "", p.Format(v))
	}
	if p.Log {
		c.text(left, floor+31, "", "", "logarithmic scale: each line is ten times the one before")
	}
	y := float64(top)
	for _, g := range p.Groups {
		if g.Name != "" {
			c.text(0, y+17, "", "title", g.Name)
			y += heading
		}
		for _, b := range g.Bars {
			class := "rival"
			if b.Ours {
				class = "ours"
			}
			c.text(left-8, y+13, "end", "", b.Name)
			end := max(x(b.Value), left+1)
			const rect = `<rect x="%d" y="%.1f" width="%.1f" height="%d" rx="2" class="%s"/>` + "\n"
			fmt.Fprintf(c, rect, left, y+3, end-left, row-6, class)
			c.text(end+6, y+13, "", "", p.Format(b.Value))
			y += row
		}
	}
	return c.end()
}

// linear maps 0 to hi to the width, with three to seven ticks.
func linear(hi float64) (x func(float64) float64, ticks []float64) {
	step := math.Pow(10, math.Floor(math.Log10(hi)))
	switch {
	case hi/step < 1.5:
		step /= 5
	case hi/step < 3:
		step /= 2
	case hi/step > 7:
		step *= 2
	}
	n := math.Ceil(hi / step)
	for i := 0.0; i <= n; i++ {
		ticks = append(ticks, i*step)
	}
	return func(v float64) float64 { return left + inner*max(0, v)/(n*step) }, ticks
}

// logarithmic maps the decades around lo and hi to the width, with a little to the left of lo, so
// that it has a bar.
func logarithmic(lo, hi float64) (x func(float64) float64, ticks []float64) {
	from := math.Floor(math.Log10(lo / 1.5))
	to := math.Ceil(math.Log10(hi))
	for e := from; e <= to; e++ {
		ticks = append(ticks, math.Pow(10, e))
	}
	return func(v float64) float64 {
		return left + inner*max(0, (math.Log10(max(v, 1e-9))-from)/(to-from))
	}, ticks
}

// Dots are rows of points along a common axis: starts in time, or gaps between them.
type Dots struct {
	Title, Subtitle string
	Max             float64 // the right end of the axis; what lies beyond is drawn there
	Step            float64 // between two lines of the grid
	Axis            string  // what runs along it
	Mark            float64 // a dashed line; 0: none
	Bands           [][2]float64
	Rows            []Row
}

// A Row is one rival's points. Those that are Bad are red.
type Row struct {
	Name   string
	Points []Point
	Note   string // at the right
	Ours   bool
}

// A Point is one value on the axis.
type Point struct {
	At  float64
	Bad bool
}

// SVG implements Plot.
func (p Dots) SVG() []byte {
	const row = 30
	height := top + bottom + row*len(p.Rows)
	x := func(v float64) float64 { return left + inner*min(max(v/p.Max, 0), 1) }
	c := begin(p.Title, p.Subtitle, height)
	floor := float64(height - bottom + 4)
	for _, b := range p.Bands {
		const rect = `<rect x="%.1f" y="%d" width="%.1f" height="%.1f" class="band"/>` + "\n"
		fmt.Fprintf(c, rect, x(b[0]), top, x(b[1])-x(b[0]), floor-top)
	}
	for v := 0.0; v <= p.Max*1.0001; v += p.Step {
		c.line(x(v), top, x(v), floor, "grid")
		c.text(x(v), floor+15, "middle", "", fmt.Sprintf("%.3g", v))
	}
	c.text(left+inner/2, floor+31, "middle", "", p.Axis)
	if p.Mark > 0 {
		c.line(x(p.Mark), top-4, x(p.Mark), floor, "mark")
	}
	for i, r := range p.Rows {
		y := float64(top + i*row + row/2)
		c.text(left-8, y+4, "end", "", r.Name)
		c.text(left+inner+8, y+4, "", "", r.Note)
		for j, pt := range r.Points {
			class := "rival"
			switch {
			case pt.Bad:
				class = "bad"
			case r.Ours:
				class = "ours"
			}
			// Spread over the height of the row, always in the same way, so that equal points are
			// seen as many.
			dy := float64(j*7%19) - 9
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="2.2" class="dot %s"/>`+"\n", x(pt.At), y+dy, class)
		}
	}
	return c.end()
}
