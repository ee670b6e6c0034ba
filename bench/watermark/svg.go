package main

import (
	"fmt"
	"html"
	"os"
	"strings"
)

// chart is a picture of lines.
type chart struct {
	title, x, y    string
	xTicks, yTicks []tick // from the left and from below; the first and the last are the ends of the axes
	lines          []line
}

type tick struct {
	at   float64
	text string
}

type line struct {
	name   string
	points [][2]float64
	dashed bool
}

const (
	chartWide, chartHigh             = 760, 440
	leftRoom, rightRoom              = 70, 210
	topRoom, bottomRoom              = 40, 60
	chartFont                        = "font-family='sans-serif' font-size='12'"
	chartText, chartGrid, chartPaper = "#222", "#ddd", "#fff"
)

// colour of a line, by its number: of those that people who see few colours can tell apart.
func colour(n int) string {
	colours := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933"}
	return colours[n%len(colours)]
}

// place returns where a value of both axes is.
func (c *chart) place(x, y float64) (float64, float64) {
	left, right := c.xTicks[0].at, c.xTicks[len(c.xTicks)-1].at
	low, high := c.yTicks[0].at, c.yTicks[len(c.yTicks)-1].at
	x, y = min(max(x, min(left, right)), max(left, right)), min(max(y, low), high)
	return leftRoom + (x-left)/(right-left)*(chartWide-leftRoom-rightRoom), chartHigh - bottomRoom - (y-low)/(high-low)*(chartHigh-topRoom-bottomRoom)
}

func (c *chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' role='img'>\n<title>%s</title>\n", chartWide, chartHigh, chartWide, chartHigh, html.EscapeString(c.title))
	fmt.Fprintf(&b, "<rect width='100%%' height='100%%' fill='%s'/>\n<g %s fill='%s'>\n", chartPaper, chartFont, chartText)
	fmt.Fprintf(&b, "<text x='%d' y='22' font-size='14'>%s</text>\n", leftRoom, html.EscapeString(c.title))
	low, high := c.yTicks[0].at, c.yTicks[len(c.yTicks)-1].at
	left, right := c.xTicks[0].at, c.xTicks[len(c.xTicks)-1].at
	for _, t := range c.xTicks {
		x, bottom := c.place(t.at, low)
		_, top := c.place(t.at, high)
		fmt.Fprintf(&b, "<path d='M%.1f %.1fV%.1f' stroke='%s'/><text x='%.1f' y='%.1f' text-anchor='middle'>%s</text>\n", x, bottom, top, chartGrid, x, bottom+18, html.EscapeString(t.text))
	}
	for _, t := range c.yTicks {
		x, y := c.place(left, t.at)
		end, _ := c.place(right, t.at)
		fmt.Fprintf(&b, "<path d='M%.1f %.1fH%.1f' stroke='%s'/><text x='%.1f' y='%.1f' text-anchor='end'>%s</text>\n", x, y, end, chartGrid, x-8, y+4, html.EscapeString(t.text))
	}
	x, _ := c.place((left+right)/2, low)
	fmt.Fprintf(&b, "<text x='%.1f' y='%d' text-anchor='middle'>%s</text>\n", x, chartHigh-14, html.EscapeString(c.x))
	fmt.Fprintf(&b, "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle'>%s</text>\n", (topRoom+chartHigh-bottomRoom)/2, html.EscapeString(c.y))
	for i, l := range c.lines {
		c.draw(&b, i, &l)
	}
	b.WriteString("</g>\n</svg>\n")
	return b.String()
}

func (c *chart) draw(b *strings.Builder, i int, l *line) {
	dash := ""
	if l.dashed {
		dash = " stroke-dasharray='5 4'"
	}
	var path strings.Builder
	for n, p := range l.points {
		x, y := c.place(p[0], p[1])
		fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(n, 1)], x, y)
		if !l.dashed && len(l.points) < 20 {
			fmt.Fprintf(b, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>", x, y, colour(i))
		}
	}
	at := topRoom + 18*i
	fmt.Fprintf(b, "<path d='%s' fill='none' stroke='%s' stroke-width='1.6'%s/>\n", &path, colour(i), dash)
	fmt.Fprintf(b, "<path d='M%d %dh22' stroke='%s' stroke-width='2'%s/><text x='%d' y='%d'>%s</text>\n", chartWide-rightRoom+14, at, colour(i), dash, chartWide-rightRoom+42, at+4, html.EscapeString(l.name))
}

// save writes the picture, unless the folder is "".
func (c *chart) save(dir, name string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // pictures for the documentation
		return err
	}
	return os.WriteFile(dir+"/"+name, []byte(c.svg()), 0o644) //nolint:gosec // the same
}
