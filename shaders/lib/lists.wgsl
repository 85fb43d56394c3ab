// What recipes know of each list: LIST words, and the rank of each slot's token among the list's tokens by position,
// [lists][CAPACITY], NONE for a dead slot. The numbers of the words are those of kernel/lists.go; the host writes them
// before a layer's prompt is selected, and the kernels keep up the marked ones (*) from then on.
const LIST: u32 = 20u;
const LIVE: u32 = 0u;     // * tokens; in decode the new one joins last, when the rule runs
const SLOTS: u32 = 1u;    // * slots
const NEW: u32 = 2u;      // prompt rows that come
const STRIDE: u32 = 3u;   // of worth, stays and kept in prefill; in decode it is CAPACITY
const LIMIT: u32 = 4u;    // tokens that stay
const FULL: u32 = 5u;     // in decode, the number of tokens at which some leave
const OLDEST: u32 = 6u;    // so many of the first tokens never leave
const NEWEST: u32 = 7u;   // and so many of the last
const LEAD: u32 = 8u;     // CriticalKV: so many are chosen by score alone
const ABSORBED: u32 = 9u; // * tokens in the list's sums
const WERE: u32 = 10u;    // * tokens that were stored before the prompt
const HELD: u32 = 11u;    // * of them, those that stay
const MASS: u32 = 12u;    // * f32, what the candidates are worth together
const TOTAL: u32 = 13u;   // AdaKV, in the layer's first list: how many of the layer's highest scores count,
const EACH: u32 = 14u;    // of how many highest scores of a head the mass weighs it,
const SAFE: u32 = 15u;    // and how many of its highest come first
const HAD: u32 = 16u;     // * slots before the prompt
