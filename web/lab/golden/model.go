package golden

import (
	"encoding/json"
	"fmt"
	"testing"
)

// Model are SmolLM2's logits, hidden states and greedy answers, from the weights dequantised to f32.
type Model struct {
	At64    []int32 `json:"at64_vocab_ids"` // the tokens of LogitsLast.At64
	EOS     int32   `json:"eos_id"`
	Prompts []Prompt
}

// Prompt is one prompt of Model.
type Prompt struct {
	Name  string
	Input string
	Chat  *struct {
		Messages      []Message
		AddGeneration bool `json:"add_generation_prompt"`
	} // set if IDs come from the chat template
	IDs    []int32
	Logits struct {
		Top32     []TokenLogit
		At64      []float64
		Mean      float64
		Std       float64
		L2        float64
		LogSumExp float64
		Margin    float64 `json:"top1_margin"`
	} `json:"logits_last"` // of the last position: 2e-3 absolute
	Hidden []struct {
		After  string
		RMS    float64   // 1e-4 relative
		First8 []float64 // 2e-3 absolute
	} `json:"hidden_last"` // residual stream of the last position after the embedding, each block and the final norm
	Greedy struct {
		IDs    []int32   // 48, or up to and including EOS
		Margin []float64 // of each step
	}
}

// TokenLogit is a [token, logit] pair.
type TokenLogit struct {
	ID    int32
	Logit float64
}

// UnmarshalJSON reads the pair.
func (p *TokenLogit) UnmarshalJSON(b []byte) error {
	var v [2]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("golden: token and logit: %w", err)
	}
	p.ID, p.Logit = int32(v[0]), v[1]
	return nil
}

// SmolLM2Model reads model.json.
func SmolLM2Model(t testing.TB) *Model {
	t.Helper()
	return load(t, "model.json", func(m *Model) int { return len(m.Prompts) })
}

// NLL is the negative log-likelihood of one text's tokens under SmolLM2.
type NLL struct {
	Text string
	IDs  []int32
	NLL  []float64 // of IDs[i+1] after IDs[..i]; 2e-3
	Mean float64   `json:"mean_nll"` // 1e-4
}

// SmolLM2NLL reads nll.json.
func SmolLM2NLL(t testing.TB) *NLL {
	t.Helper()
	return load(t, "nll.json", func(n *NLL) int { return len(n.NLL) })
}

// Attention holds softmax rows and vectors of one prompt's last position in SmolLM2.
type Attention struct {
	Text string
	IDs  []int32
	Rows map[int][][]float64 // layer → [query head][key]; 1e-5
	// Vectors of a layer, 1e-3. Queries and keys are in half-split order: pair c is channels c and c+32, where the GGUF
	// file has 2c and 2c+1.
	Vectors map[int]struct {
		QPreRoPEHead0 []float64   `json:"q_pre_rope_head0"`     // [head_dim]
		Q             [][]float64 `json:"q_post_rope"`          // [query head][head_dim]
		K             [][]float64 `json:"k_post_rope"`          // [KV head][head_dim]
		V             [][]float64 `json:"v"`                    // [KV head][head_dim]
		Context16     []float64   `json:"attn_context_first16"` // before the output projection
		AttnOut16     []float64   `json:"attn_out_first16"`     // after it
		MLPOut16      []float64   `json:"mlp_out_first16"`      // of the down projection
	} `json:"intermediates_last_position"`
}

// SmolLM2Attention reads attention.json.
func SmolLM2Attention(t testing.TB) *Attention {
	t.Helper()
	return load(t, "attention.json", func(a *Attention) int { return len(a.Rows) })
}
