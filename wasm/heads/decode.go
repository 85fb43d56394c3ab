//go:build !js

package heads

import (
	"encoding/json"

	"kvlens/cache/policy"
)

// decode reads tables, unchecked.
func decode(data []byte, t *policy.Tables) error { return json.Unmarshal(data, t) }
