// The session buffer: u32 words that say what one run works on. The host writes them; in recorded decode the sampling
// kernel moves them on. The numbers of the words are those of kernel/session.go.
const POS: u32 = 0u;        // position of chunk row 0
const FROM: u32 = 1u;       // prompt row of chunk row 0
const ROWS: u32 = 2u;       // rows of the run
const LOGIT_FROM: u32 = 3u; // prompt row of the first row that gets logits
const LOGIT_ROWS: u32 = 4u; // rows that get logits
const ZERO: u32 = 5u;       // always 0, an offset for buffers that begin with the run
const VALUES_AT: u32 = 6u;  // floats from the keys to the values of the new rows
const LAST: u32 = 7u;       // slots with a later position do not count; a dead slot's position is the largest of all
const QUERY: u32 = 8u;      // chunk row of the queries in decode
const STEP: u32 = 9u;      // steps of the recorded program so far
const HALT: u32 = 10u;      // not 0: the answer has ended, nothing is written any more
const LISTS: u32 = 11u;     // layers · KV heads
const PAGE_K: u32 = 12u;    // lanes of a key page
const PAGE_V: u32 = 13u;    // lanes of a value page
const SLOTS_AT: u32 = 14u;  // word of slots: [kv_heads][CHUNK] slots of the rows to store
const RING_AT: u32 = 15u;   // word of the ring: [RING][lists] of slot and number of slots
const KEYS_AT: u32 = 16u;   // word of the key pages: [page][list], offsets in the arena in words
const VPAGES_AT: u32 = 17u; // the same for value pages
const POSITIONS_AT: u32 = 18u; // and for position pages
const CAPACITY: u32 = 19u;  // slots that a row of attention logits has room for
const CHUNK: u32 = 20u;     // rows that IDS has room for
const PINS: u32 = 144u;     // positions + 1 of tokens that never leave, 0 behind the last
const PIN_COUNT: u32 = 16u;
const IDS: u32 = 160u;      // token ids of the run

const RING: u32 = 32u;      // steps that the host may fill ahead
const POS_LANES: u32 = 8u;  // lanes of a position page
const LOWEST: f32 = -3.0e38; // the logit of a slot that does not count

// What the sampling kernel works on.
const TEMPERATURE: u32 = 32u; // f32; 0 is greedy
const TOP_K: u32 = 33u;       // 0 is off
const TOP_P: u32 = 34u;       // f32; 0 and 1 are off
const MIN_P: u32 = 35u;       // f32
const REPEAT: u32 = 36u;      // f32; 0 and 1 are off
const RANDOM: u32 = 37u;      // two words: the generator's state
const CHOSEN: u32 = 39u;      // tokens in the ring of recent ones, ever
const STOPS: u32 = 40u;       // ids that end the answer
const STOP_COUNT: u32 = 16u;
const RECENT: u32 = 56u;      // ring of the last tokens, for the repetition penalty
const RECENT_COUNT: u32 = 64u;
const FORCED: u32 = 120u;     // ring of ids that take the place of chosen ones
const FORCED_COUNT: u32 = 8u;
const RESULT: u32 = 128u;     // 16 words: id, status, step, probability, 5 ids, 5 probabilities
const NONE: u32 = 0xffffffffu;
