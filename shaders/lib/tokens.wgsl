// The candidates of a layer, for the kernels of recipes: a KV head's are its stored tokens in the order of their
// positions, then the new rows. Scores of candidates are rows of STRIDE, the most candidates of a KV head rounded up to 4;
// what lies beyond a head's own candidates is INVALID.
@group(0) @binding(2) var<storage, read> tokens: array<u32>;

// Words of the buffer; the numbers are those of kernel/candidates.go.
const NEW: u32 = 0u;      // new rows
const STRIDE: u32 = 1u;
const QUERIES: u32 = 2u;  // queries that are looked at, the last of them that of new row FIRST_ROW + QUERIES − 1
const FIRST_ROW: u32 = 3u;
const FIRST: u32 = 4u;    // row of the first query in its buffer, which goes round after AROUND rows
const AROUND: u32 = 5u;
const SCORED: u32 = 6u;   // query heads that are scored
const ORDER: u32 = 7u;    // word of slots: [kv_heads][ROOM]
const ROOM: u32 = 8u;
const SEEN: u32 = 9u;     // queries that the spread holds
const SAME: u32 = 10u;    // 1: all KV heads have the same candidates
const STORED: u32 = 16u;  // [kv_heads] stored tokens, then the scored heads

const INVALID: f32 = -1.0e30;

fn stored(h: u32) -> u32 {
  return tokens[STORED + h];
}

fn candidates(h: u32) -> u32 {
  return stored(h) + tokens[NEW];
}

// The query head of row s of scores.
fn scored_head(s: u32) -> u32 {
  return tokens[STORED + p.kv_heads + s];
}

fn kv_head(head: u32) -> u32 {
  return head / (p.heads / p.kv_heads);
}
