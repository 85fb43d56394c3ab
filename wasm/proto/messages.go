// Package proto is what the page and the engine say to each other: little-endian packets, u32 kind | u32 id | payload,
// one transferred ArrayBuffer each. Hello comes first in both directions and has the id 0. Every other request carries an
// id of its own, counted up from 1; its events carry the same id; it ends in exactly one Done or Failure. Stop cancels by
// id. One long request runs at a time: while it does, Stop, Ping and GetState are heard and others fail with CodeBusy.
package proto

// Version changes with every change of the packets. Both sides must also be of one build.
const Version = 5

// Requests, page → engine.
type (
	// Hello opens the connection, in both directions.
	Hello struct {
		Version uint32
		Build   string
	}
	// Open loads a model and makes an empty session. Events: Progress…, then Opened. A worker opens one model in its
	// life; another model or backend means another worker.
	Open struct {
		Manifest string // URL of the model's manifest, same origin unless the reader typed it
		Backend  string // "" for whichever is best, "webgpu", "webgpu-int8", "cpu" or "ref"
		Memory   Memory
		Float    bool // f32 activations on the CPU path instead of integers
	}
	// Memory are the cache's settings.
	Memory struct {
		Cap uint64 // bytes; 0 is the default: what Full takes for min(context_length, 2,048) tokens
		// Share, in (0, 1], makes the cap a share of what Full takes for the first turn's prompt and answer limit: it is
		// settled when that turn begins. 0 is none; Cap must be 0 beside it.
		Share  float32
		Recipe Recipe
		F32    bool // f32 pages instead of f16
		Parity bool // published triggers, and growth while decoding, instead of a cap that always holds
		// What a session keeps so that one can ask about it later; the cache stays as it is when only these change.
		Explain bool // scores and votes, for Explain
		Shadow  bool // copies of what leaves, beside the cap, for Matrix.Would and Recall
		Undo    bool // a copy of the cache after each prompt, so that Undo computes only the answer again
	}
	// Recipe says what stays under the cap: a registered method and the wrappers around it, innermost first.
	Recipe struct {
		Method Setting // no name is "full"
		Wraps  []Setting
	}
	// Setting is a method or wrapper with those of its knobs that differ from their defaults: columns of one length. An
	// observation window that is not among them is min(published, max(1, ⌊B/4⌋)).
	Setting struct {
		Name  string
		Knobs []string
		At    []float64
	}
	// SetMemory sets the cache's settings. The conversation stays where it can: under another cap tokens leave or lists
	// grow, under another recipe it is computed again. Events: Progress, Moved where a recipe can't run on the backend or
	// no longer needs another, Kept, State. If it fails or is stopped, settings and conversation are as before.
	SetMemory struct{ Memory Memory }
	// Generate runs one turn. Events: Prompt, Progress (prefill), Kept, Step…, Moved where the backend had to be set up
	// anew, and State, also before a Failure once the turn has begun; Done.Reason says why it ended.
	Generate struct {
		Text     string // a raw prompt, a story, or a chat message, as Mode says
		Question string // Story: the question after the story; a later turn uses the question only
		System   string // Chat: system line of a new chat; "" means the template's default
		Mode     PromptMode
		Continue bool // add to the cache as a later turn; on an empty cache it is a first turn
		Max      uint32
		Sampling Sampling
		Forced   []uint32 // token ids that replace the first sampled ones (teacher forcing)
		// Later, in a first turn of Story, has the story read and compressed before the question is there. The cache of
		// that moment is kept: the next such turn about the same story, under the same settings, begins from it.
		Later bool
		Rows  bool // fill Step.Rows, RowTokens and Heads; CodeBadRequest "rows" where the backend shows none
		// Resume has no prompt: the answer goes on where the conversation stands, after a stop, an Undo, or one token.
		Resume bool
		// Pause ends the turn after so many tokens, as ReasonMax; Max stays what a share of the cap is settled by. 0 is none.
		Pause uint32
	}
	// Sampling are the settings of wasm/sample. Temperature 0 is greedy.
	Sampling struct {
		Temperature, TopP, MinP, Repeat float32
		TopK, Seed                      uint32
	}
	// Stop cancels the request with the given id, if it still runs. The request then ends with ReasonStopped.
	Stop struct{ Target uint32 }
	// View asks for the attention of one head over everything in the cache. Event: Matrix, then State. It computes the
	// queries anew, in about the time of reading the conversation up to that layer; Stop ends that.
	View struct{ Layer, Head uint32 }
	// Reset empties the cache. Event: State.
	Reset struct{}
	// GetState asks for the latest State, also while another request runs. Event: State.
	GetState struct{}
	// Ping is answered by Done at once, also while another request runs: the sign of life.
	Ping struct{}
	// ListModels asks what is stored of each manifest. Event: Models.
	ListModels struct{ Manifests []string }
	// DeleteModel frees a stored model. Event: Models with the rest.
	DeleteModel struct{ Manifest string }
)

// The reasons of Opened.BackendWhy and Moved.BackendWhy: codes that the page words.
const (
	WhyAsked     = "asked"      // the reader asked for this backend
	WhyTested    = "tested"     // there is a graphics adapter, and its kernels give what the reference path gives
	WhyRace      = "race"       // a race of a few tokens decided, as it does for small models
	WhyNoBuild   = "no-build"   // the part of this build that reaches the adapter is not there
	WhyNoWebGPU  = "no-webgpu"  // the browser has no WebGPU
	WhyNoAdapter = "no-adapter" // it has, but no graphics adapter behind it
	WhySoftware  = "software"   // the adapter is a program, slower than the CPU path
	WhySilent    = "silent"     // the browser did not answer in time
	WhyNoDevice  = "no-device"  // there is an adapter, but it gave no device
	WhySelfTest  = "self-test"  // the kernels do not run on it, or give other numbers than the reference path
	WhyMemory    = "memory"     // the adapter has not enough memory for the model
	WhyLost      = "lost"       // the adapter was taken away and could not be had again
	WhyRecipe    = "recipe"     // the recipe runs on the CPU path only
)

// Whys are all reasons.
var Whys = []string{
	WhyAsked, WhyTested, WhyRace, WhyNoBuild, WhyNoWebGPU, WhyNoAdapter, WhySoftware, WhySilent, WhyNoDevice, WhySelfTest,
	WhyMemory, WhyLost, WhyRecipe,
}

// PromptMode says how text becomes a prompt.
type PromptMode uint8

const (
	Raw   PromptMode = iota // as it is (after the model's bos, where it has one)
	Story                   // the manifest's template for the question's language: story, newline, question
	Chat                    // one user message of the model's chat template
)

// Events, engine → page.
type (
	// Progress is the state of a long request. Total 0 means unknown. Resumed is how much of Done was there before.
	Progress struct {
		Stage                Stage
		Done, Total, Resumed uint64 // bytes in Fetch, Load; tokens × layers in Prefill
		Refetched            uint32 // parts that arrived broken and were fetched again
	}
	// Opened describes the model and the engine that runs it.
	Opened struct {
		Name, Licence, Source, Arch, FileType string
		Layers, Heads, KVHeads, HeadDim       uint32
		Hidden, FFN, Vocab, Context           uint32
		Params, FileBytes                     uint64
		TokenBytes                            uint32 // KV bytes of one token over all lists, by the page format
		Modes                                 []uint8
		Backend, BackendDetail, BackendWhy    string // why: one of the Why codes
		OPFS                                  bool   // the model is kept for the next visit
		Tables                                bool   // the model's heads were measured: recipes that need that can run
		State                                 State
	}
	// Prompt is the tokens of the turn's prompt, in display pieces (byte fragments merged into characters). The last token
	// of the turn before, which its Steps brought, is not among them.
	Prompt struct {
		First    uint32   // position of the first token
		IDs      []uint32 // one per token
		PieceEnd []uint32 // [pieces] number of tokens up to and including this piece
		Text     []string // [pieces]
	}
	// Kept says what the cache holds. A Step's token is in no list yet; the token before it is in all lists, but for what
	// Step.Evictions says. So after a Step, the tokens kept are those of the last Kept and the answer's so far, without
	// evictions. Lists are [layers][n_kv_heads]; their columns are empty for recipes that drop nothing.
	Kept struct {
		Tokens, Layers, KVHeads uint32
		Bits                    []uint8  // bitset by list, bit p mod 8 of byte p div 8 is position p; rows padded to bytes
		Reasons                 []uint8  // [lists][tokens]: Keeps of each token that is kept, 0 for others
		Caps                    []uint32 // tokens that each list may hold after a prompt
		Budget, Reserve         uint32   // of a list, on average
		Window, Published       uint32   // observation window in use, and the published one
		Recipe                  string
		RecipeVersion           uint32
		Pins                    []uint32 // positions
		Shadowed                []uint8  // as Bits: tokens that left and have a copy in the shadow; empty without one
	}
	// Step is one generated token and what the views show of it: the columns of a run. Columns that no view asked for
	// are empty. Shapes: L layers, G kv heads, Q query heads, N tokens stored.
	Step struct {
		Step, Position, Token uint32
		Phase                 Phase
		Forced                bool
		Text                  string // display text that became final with this token; may be empty
		Bytes                 []uint8
		Millis                float32
		Prob                  float32
		TopIDs                []uint32 // five, by probability
		TopProbs              []float32
		TopTexts              []string
		Ledger                []LedgerRow
		Kept                  []uint8   // as in Kept.Bits; empty where Kept and Evictions tell it
		Reasons               []uint8   // as in Kept.Reasons
		Evictions             Evictions // what left for the token before this one
		Virtual               []float32 // RazorAttention's virtual token, count per [L][G]
		// Rows is the attention of the query that chose this token, over all tokens before it: u8 log codes [L][Q][cells];
		// code c > 0 stands for 10^(4c/255 − 4), 0 for less than 1e-4. A cell holds the largest of ⌈RowTokens/cells⌉ tokens:
		// of one up to 1,024 tokens, unless the model has so many heads that Rows would pass 320 KiB.
		Rows          []uint8
		RowTokens     uint32 // N of Rows
		Heads         HeadSummaries
		Gold          []float32 // log-probabilities: gold first, then distractors
		RefKL         float32
		RefAgree      bool
		HasRef        bool
		Seed          uint32
		Recipe        string
		RecipeVersion uint32
	}
	// Matrix is a head's causal attention, queries × keys, in the codes of Step.Rows. Tokens [First, First + Tokens) are
	// pooled to Cells by Cells, each cell the largest of Pool × Pool; what lies in a query's future is 0.
	Matrix struct {
		Layer, Head, First, Tokens, Pool, Cells uint32
		Codes                                   []uint8 // [Cells][Cells], at most 1 MiB
		// Left is how many tokens the conversation had when each token left the head's list, Stays where it has not. Codes
		// of queries from then on are 0. Columns of Tokens values, empty where nothing has left.
		Left []uint32
		// Would is, with a shadow, the attention that such queries would have given if nothing had left; else empty.
		Would []uint8
	}
	// Evictions are columns of one length, or empty. Head is the KV head, Step the index of the Step that they came with, Rule
	// a Decision. Rank, Score and Threshold are as in Explained: 0 and NaN without Memory.Explain, or where there is no score.
	Evictions struct {
		Layer, Head, Position, Step, Rank []uint32
		Rule                              []uint8
		Score, Threshold                  []float32
	}
	// HeadSummaries are columns of L·Q values, from the same probabilities as Rows before they are rounded and pooled:
	// the share of the first 4 tokens, of the last 32 but for those, the entropy in nats, and the largest probability.
	HeadSummaries struct{ Sink, Local, Entropy, Top1 []float32 }
	// LedgerRow is one kind of the ledger.
	LedgerRow struct {
		Kind                     uint8 // cache.Kind
		Logical, Allocated, Peak uint64
	}
	// Moved says that the conversation goes on where it was, on another backend or on the same again: because the backend
	// was lost with all its memory, or because of the recipe.
	Moved struct {
		Backend, BackendDetail, BackendWhy string
		Recipe                             bool // it was not lost
	}
	// State is the session between turns.
	State struct {
		Stored, Position, Room, Context uint32 // tokens
		Cap                             uint64 // bytes
		Reserved                        uint64 // WASM memory: reserved by Go, not returned
		Ledger                          []LedgerRow
		PrefillRate, DecodeRate         float32 // tokens per second of the last turn
	}
	// Models lists manifests and what is stored of them.
	Models struct {
		Manifest, Name, Licence []string
		Size, Stored            []uint64 // bytes
		Quota, Usage            uint64   // of the origin; 0 unknown
		OPFS                    bool
	}
	// Done ends a request.
	Done struct {
		Reason Reason
		Tokens uint32
	}
	// Failure ends a request with an error. The page words Code; Op and Msg are details.
	Failure struct {
		Code    Code
		Op, Msg string
		Args    []string // numbers and names for the sentence, by Code
	}
)

// Keeps says why a token is kept.
type Keeps uint8

// The reasons.
const (
	KeptAll    Keeps = iota // nothing had to leave
	KeptSink                // among the first tokens
	KeptRecent              // among the last ones
	KeptScore               // by its score
	KeptVote                // by the votes of semantic retrieval heads
	KeptChunk               // with its chunk
	KeptMask                // its head keeps everything
	KeptChance              // by chance
	KeptPin                 // pinned by the reader
)

// Stage names what a long request is doing, so that nothing spins unnamed.
type Stage uint8

const (
	StageStore Stage = iota // looking at what is stored
	StageFetch
	StageVerify
	StageLoad
	StageTokenizer
	StageSelfTest
	StagePrefill
	StageRestore // setting up a lost backend anew, and reading the conversation again
)

// Phase of a Step.
type Phase uint8

const (
	PhasePrefill Phase = iota
	PhaseDecode
)

// Reason says why a turn ended.
type Reason uint8

const (
	ReasonNone     Reason = iota
	ReasonStopID          // an end-of-generation token
	ReasonStopText        // a stop string
	ReasonMax             // the answer limit
	ReasonStopped         // the reader pressed Stop
	ReasonFull            // the cap is reached; the answer so far is kept
)

// Code names a kind of failure; each has one sentence and one action in the page's catalogue.
type Code uint16

const (
	CodeInternal   Code = iota + 1 // a defect of ours
	CodeVersion                    // page and engine of different builds: reload
	CodeNetwork                    // a part could not be fetched: retry (resumes)
	CodeHash                       // a part arrived broken twice
	CodeManifest                   // the manifest is unreadable
	CodeFormat                     // the model file is unreadable or of an unknown kind
	CodeTooLong                    // the prompt does not fit the cap: Args = asked, room, cap bytes
	CodeMemory                     // not enough memory
	CodeQuota                      // not enough storage
	CodeBackend                    // the asked backend is not available
	CodeNumbers                    // logits are not finite or all equal
	CodeBusy                       // another request is running
	CodeBadRequest                 // a value out of range: Args = field
	CodeEmpty                      // nothing to say: the prompt is empty
	CodeDead                       // the worker died (made by the client)
	CodeLost                       // the graphics processor was taken away, and nothing could take its place
	CodeSmall                      // the cap holds no token under this recipe
	CodeTables                     // the recipe needs measured heads, and this model's were not: Args = table
	CodeNoRecord                   // nothing was kept that could answer this: Args = setting, "explain" or "shadow"
)
