// Command app is the program of the page. Natively there is none: web/gen prerenders the page and builds the site.
package main

import "kvlens/app/ui"

// build is set by the linker; the engine's must be the same.
var build = "dev"

func main() {
	if err := ui.Run(build); err != nil {
		panic(err) // the shell's script shows it
	}
}
