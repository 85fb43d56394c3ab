// Recipes: for every BOUND slots the least and the greatest of the keys stored in them, channel by channel (Quest, Tang et
// al., 2024); in recorded decode (RECORDED) for those of the newest token alone.
//
// Grid: x, y over pairs of channels, KV heads and pages of bounds.
const RECORDED: bool = false;

struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
  bound: u32, // slots
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(5) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/beside.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let c = n % (p.dim / 2u);
  let list = p.layer * p.kv_heads + n / (p.dim / 2u) % p.kv_heads;
  var page = n / (p.dim / 2u) / p.kv_heads;
  let count = session[ring_at(list) + 1u];
  if (RECORDED) {
    if (page > 0u) {
      return;
    }
    page = session[ring_at(list)] / p.bound;
  }
  var least = vec2<f32>(-LOWEST, -LOWEST);
  var greatest = vec2<f32>(LOWEST, LOWEST);
  for (var slot = page * p.bound; slot < min((page + 1u) * p.bound, count); slot++) {
    if (arena[position_at(list, slot)] <= session[LAST]) {
      let x = key2(key_at(list, slot), c);
      least = min(least, x);
      greatest = max(greatest, x);
    }
  }
  if (least.x <= greatest.x) { // some slot is not dead
    let at = bounds_at(list, page) + 2u * c;
    arena[at] = bitcast<u32>(least.x);
    arena[at + 1u] = bitcast<u32>(least.y);
    arena[at + p.dim] = bitcast<u32>(greatest.x);
    arena[at + p.dim + 1u] = bitcast<u32>(greatest.y);
  }
}
