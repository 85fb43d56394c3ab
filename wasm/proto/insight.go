package proto

// What explains, undoes and compares. Requests, page → engine.
type (
	// Explain asks why the tokens of one list are there or are not. Event: Explained. CodeNoRecord where Memory.Explain was
	// not set when the conversation began.
	Explain struct{ Layer, KVHead uint32 }
	// Undo goes back to the conversation of the first Tokens tokens, as it was: what is kept, and the logits after them.
	// CodeBadRequest "tokens" in the middle of a prompt or beyond the conversation. Events: Progress, Kept, State.
	Undo struct{ Tokens uint32 }
	// Pin names the tokens that no recipe may drop from now on, in all lists, instead of those named before. They count
	// against the cap; CodeBadRequest "positions" where they are too many for it. Those that have left come back only by
	// Recall, or Again. Events: Kept, State.
	Pin struct {
		Positions []uint32
		Again     bool // the conversation is computed again, with its tokens, as if they had been pinned from the start
	}
	// Recall brings a token back from the shadow into every list that it has left; where a list is full, another token
	// leaves by the decode rule. CodeBadRequest "position" where no copy is there. Events: Kept, State.
	Recall struct{ Position uint32 }
	// Compare runs two settings of the cache beside a full one, on one upload of the weights and apart from the
	// conversation: first all three read the prompt and are forced along what the full cache answers, then A and B answer
	// freely. Events: Prompt, Progress, Compared…, Strayed…, Contrast for A and for B, then State; Moved, and Moved back, where
	// a setting does not run on the backend. CodeBadRequest "gold" where the two answers do not differ within Max.
	Compare struct {
		Text, Question, System string
		Mode                   PromptMode
		Max                    uint32
		A, B                   Memory // Explain, Shadow and Undo do nothing; no cap is what Full takes for prompt and Max
		Later                  bool   // as in Generate
		Gold, Other            string // an answer and a wrong one, whose first tokens that differ give the margin; "" none
	}
)

// Events, engine → page.
type (
	// Explained tells of one list, token by token, the last decision about each. Columns of Tokens values.
	Explained struct {
		Layer, KVHead, Tokens uint32
		Kept                  []uint8   // 1: the list holds it
		Stage                 []uint8   // Decisions
		At                    []uint32  // how many tokens the conversation had when it was decided
		Score, Threshold      []float32 // NaN where there was none; the threshold is the least score that stayed without protection
		Rank                  []uint32  // among all that were compared, 1 is the best; 0 where there was no score
		// Voters are the query heads whose own scores are known, and Votes [voters][tokens] is 1 where a token is among the
		// best of its voter, as many as the list kept by score.
		Voters []uint32
		Votes  []uint8
		Bytes  uint64 // that the record of the whole session takes
	}
	// Compared is one token of the full cache's answer and what A and B would have said. KL is KL(full‖x) in nats.
	Compared struct {
		Index, Position, Token uint32
		Text                   string // as in Step
		Bytes                  []uint8
		Prob                   []float32 // of the token: full, A, B
		KL                     []float32 // A, B
		Agree                  []uint8   // A, B: 1 where the most probable token is the full cache's
		Top                    []uint32  // their most probable tokens
		TopTexts               []string
		Margin                 []float32 // full, A, B: log-probability of Gold less Other; empty but at the first token
	}
	// Strayed is one token of a free answer: Run 0 is A, 1 is B.
	Strayed struct {
		Run, Index, Token uint32
		Text              string
		Bytes             []uint8
		Same              bool // all tokens up to here are the full cache's
	}
	// Contrast sums up one run of a comparison. Retained is the share of the full cache's attention, over the last
	// query of the prompt, that falls on tokens which the run kept: [layers][n_heads].
	Contrast struct {
		Run             uint32
		Recipe          string
		Tokens          uint32 // of the forced answer, over which the means are
		MeanKL, MaxKL   float32
		Agree           uint32  // tokens of it where the most probable token is the same
		Diverged        uint32  // index of the first free token that differs; Stays if none does
		Cap, Peak, Full uint64  // bytes: the arena, the most that it and prefill took, and what Full takes
		Rate            float32 // tokens per second, forced
		Retained        []float32
		Kept            Kept // after the prompt
	}
)

// Stays stands for a time that has not come.
const Stays = ^uint32(0)

// Decision says which stage had the last word about a token.
type Decision uint8

// The decisions. Those from DecidedScore on may also be what removed the token.
const (
	DecidedRoom    Decision = iota // everything fitted
	DecidedNew                     // stored since the last selection
	DecidedSink                    // protected as one of the first
	DecidedRecent                  // protected as one of the last
	DecidedPin                     // pinned
	DecidedMask                    // its head keeps everything
	DecidedScore                   // the prompt's selection, by score
	DecidedPlace                   // the prompt's selection, by position alone
	DecidedCascade                 // a later layer took of this layer's budget
	DecidedRule                    // the method's rule for one token after the other: in answers, and in prompts of streams
	DecidedCapRule                 // our rule that keeps the cap while answering
	DecidedCap                     // the cap was lowered
	DecidedRecall                  // recalled from the shadow
)
