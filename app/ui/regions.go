package ui

import "github.com/maxence-charriere/go-app/v10/pkg/app"

// The regions of the page that are still empty; each moves to a file of its own when it is filled.

// why says why a token stays or left. In the inspector, below the matrix.
func (c *controller) why() app.UI { return nothing() }

// steps undo, pin and go on token by token. In the centre, right below the answer.
func (c *controller) steps() app.UI { return nothing() }

// compare sets two policies beside each other. In the centre, below the heads; the composer follows.
func (c *controller) compare() app.UI { return nothing() }
