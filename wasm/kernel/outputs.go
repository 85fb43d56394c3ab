package kernel

import (
	"fmt"
	"strconv"

	"kvlens/cache/policy"
	"kvlens/shaders"
	"kvlens/wasm/step"
)

// outputTile is how many candidates share a pass over the projection, as shaders/outputs.wgsl has it.
const outputTile = 8

// Outputs is what CriticalKV looks at beside scores: how much each candidate's value would add to the layer's output, by
// its projection w. The stages run with Input; other plans have none.
func (x *Scoring) Outputs(b *Backend, w step.Tensor) ([]Stage, error) {
	if x.plan.Select.Kind != policy.SelectCritical {
		return nil, nil
	}
	s := &x.s
	parts, err := b.weights(w, s.Hidden, s.Heads*s.HeadDim)
	if err != nil {
		return nil, fmt.Errorf("webgpu: output projection: %w", err)
	}
	lanes := shaders.Group
	if b.lib.Plain {
		lanes = 1
	}
	var out []Stage
	for i, part := range parts {
		st := x.stage("outputs", with(x.value, "LANES", strconv.Itoa(lanes)+"u"), func(c *Candidates) int {
			return up(c.Stride(), outputTile) * s.KVHeads * lanes
		}, uint32(part.rows), uint32(w.Cols), part.codesAt, part.scalesAt, flag(x.plan.Reduce.Kind == policy.ReduceLayer), flag(i > 0))
		st.Variant.Includes = map[string]string{"layout": layoutNames[w.Layout]}
		st.codes, st.scales = part.codes, part.scales
		out = append(out, st)
	}
	return out, nil
}
