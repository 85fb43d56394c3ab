package ui

import (
	"strconv"
	"strings"

	"github.com/maxence-charriere/go-app/v10/pkg/app"
)

// Sides of the map of lists: a cell and its gap, in units of the drawing.
const (
	mapCell = 10
	mapStep = 12
)

// map_ is all lists at a glance, layers across and KV heads down: filled where the token is.
func (x *why) map_() app.UI {
	if len(x.Places) == 0 {
		return nothing()
	}
	cells := make([]app.UI, 0, len(x.Places)+1)
	for i, p := range x.Places {
		class := "f-none"
		if p.Held > 0 {
			class = "f-" + strings.TrimPrefix(keeps[p.Why].colour, "b-")
		}
		cells = append(cells, mapRect(class, i/x.Heads, i%x.Heads))
	}
	cells = append(cells, mapRect("f-ring", x.List/x.Heads, x.List%x.Heads))
	return svg("svg").Class("listmap").Attr("viewBox", "-1 -1 "+strconv.Itoa(x.Layers*mapStep)+" "+strconv.Itoa(x.Heads*mapStep)).
		Attr("width", strconv.Itoa(x.Layers*mapStep)).Attr("height", strconv.Itoa(x.Heads*mapStep)).Aria("hidden", "true").Body(cells...)
}

func mapRect(class string, column, row int) app.UI {
	side := strconv.Itoa(mapCell)
	return svg("rect").Class(class).Attr("x", strconv.Itoa(column*mapStep)).Attr("y", strconv.Itoa(row*mapStep)).Attr("width", side).Attr("height", side)
}
