//go:build !js

package weights

import "encoding/json"

// decode reads a manifest's fields, unchecked.
func decode(data []byte, m *Manifest) error { return json.Unmarshal(data, m) }
