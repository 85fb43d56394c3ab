//go:build !js

package text

import (
	"embed"
	"fmt"
)

//go:embed *.json
var files embed.FS

// Load reads a catalogue from the repository; for prerendering and tests. In the browser it is fetched.
func Load(lang string) (*Catalogue, error) {
	data, err := files.ReadFile(lang + ".json")
	if err != nil {
		return nil, fmt.Errorf("text: %w", err)
	}
	return Parse(lang, data)
}
