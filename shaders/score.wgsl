// Decode, first half of attention: the logits q·k/√dim of one row of queries over a layer's stored tokens. A slot that
// is dead or later than LAST gets LOWEST, and so does one that the head does not read (Quest). The row stays in scratch,
// where views and policies find it.
//
// Shapes: q [chunk rows][heads·dim], of which row QUERY; scores [heads][CAPACITY].
// Grid: x over SPLITS workgroups that stride over the slots, y over the heads: its size does not depend on how many
// tokens are stored, so that it can be recorded.
struct Params {
  layer: u32,
  heads: u32,
  kv_heads: u32,
  dim: u32,
  scale: f32,
  bound: u32, // slots of a page of bounds, where heads read some of them
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> arena: array<u32>;
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/lanes.wgsl
//!include lib/reads_{reads}.wgsl

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let h = id.y;
  let list = p.layer * p.kv_heads + h / (p.heads / p.kv_heads);
  let query = (session[QUERY] * p.heads + h) * p.dim;
  let count = session[ring_at(list) + 1u];
  for (var slot = id.x; slot < count; slot += groups.x * GROUP) {
    var logit = LOWEST;
    if (arena[position_at(list, slot)] <= session[LAST] && reads(h, slot)) {
      let key = key_at(list, slot);
      var sum = 0.0;
      for (var i = 0u; i < p.dim / 2u; i++) {
        sum += dot(vec2<f32>(q[query + 2u * i], q[query + 2u * i + 1u]), key2(key, i));
      }
      logit = sum * p.scale;
    }
    scores[h * session[CAPACITY] + slot] = logit;
  }
}
