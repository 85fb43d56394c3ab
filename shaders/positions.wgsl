// Recipes: gathers the positions of all lists' tokens, for the host to read in one piece after a prompt or an answer.
//
// Shapes: positions [lists][STRIDE], NONE for a dead slot and beyond a list's slots.
// Grid: x, y over slots and lists.
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> tokens: array<u32>;
@group(0) @binding(3) var<storage, read> lists: array<u32>;
@group(0) @binding(4) var<storage, read> arena: array<u32>;
@group(0) @binding(5) var<storage, read_write> positions: array<u32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl

const STRIDE: u32 = 1u; // word of tokens, as lib/tokens.wgsl names it
const LIST: u32 = 20u;  // and words of lists, as lib/lists.wgsl does
const SLOTS: u32 = 1u;

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let slot = n % tokens[STRIDE];
  let list = n / tokens[STRIDE];
  if (list >= session[LISTS]) {
    return;
  }
  var position = NONE;
  if (slot < lists[list * LIST + SLOTS]) {
    position = arena[session[session[POSITIONS_AT] + (slot / POS_LANES) * session[LISTS] + list] + slot % POS_LANES];
  }
  positions[n] = position;
}
