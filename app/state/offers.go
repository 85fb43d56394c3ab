package state

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ParseOffers reads the site's list of models; the first is the one that the page opens by itself. Manifests are paths
// relative to the list, and a model whose manifest lies beside the list is part of the site itself.
func ParseOffers(data []byte) ([]Offer, error) {
	var list struct {
		Models []struct {
			Manifest, ID, Name, Licence string
			Size                        uint64
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("state: list of models: %w", err)
	}
	var offers []Offer
	for _, m := range list.Models {
		if m.Manifest == "" || strings.Contains(m.Manifest, "..") || strings.Contains(m.Manifest, ":") || strings.HasPrefix(m.Manifest, "/") {
			return nil, fmt.Errorf("state: list of models: manifest %q is not a path beside the list", m.Manifest)
		}
		offers = append(offers, Offer{
			Manifest: m.Manifest, ID: m.ID, Name: m.Name, Licence: m.Licence, Size: m.Size,
			BuiltIn: !strings.Contains(m.Manifest, "/"),
		})
	}
	return offers, nil
}
