// Stores the run's keys and values, and their positions, in the slots of a layer's lists.
//
// Shapes: kv both [prompt rows][kv_heads·dim]; slots [kv_heads][CHUNK], or the ring's in recorded decode (RECORDED).
// Grid: x, y over pairs of channels, KV heads and rows.
const RECORDED: bool = false;
const UNTURN: bool = false; // keys are stored before RoPE (StreamingLLM)

struct Params {
  layer: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(2) var<storage, read> kv: array<f32>;
@group(0) @binding(3) var<storage, read> rope: array<f32>;
@group(0) @binding(4) var<storage, read_write> arena: array<u32>;

//!include lib/session.wgsl
//!include lib/half.wgsl
//!include lib/grid.wgsl
//!include lib/pages.wgsl
//!include lib/write.wgsl
//!include lib/turn.wgsl

// Channel c of the key at float k of kv.
fn key(k: u32, c: u32, position: u32) -> f32 {
  if (UNTURN && c < p.rot) {
    return unturned(kv[k + c], kv[k + partner_of(c)], c, position);
  }
  return kv[k + c];
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let pairs = p.dim / 2u;
  let n = thread(id, groups);
  let i = n % pairs;
  let h = n / pairs % p.kv_heads;
  let t = n / pairs / p.kv_heads;
  if (t >= session[ROWS]) {
    return;
  }
  if (RECORDED && session[HALT] != 0u) {
    return;
  }
  let list = p.layer * p.kv_heads + h;
  var slot: u32;
  if (RECORDED) {
    slot = session[ring_at(list)];
  } else {
    slot = session[session[SLOTS_AT] + h * session[CHUNK] + t];
  }
  let k = ((session[FROM] + t) * p.kv_heads + h) * p.dim;
  let v = session[VALUES_AT] + k + 2u * i;
  let position = session[POS] + t;
  write2(key_at(list, slot), i, vec2<f32>(key(k, 2u * i, position), key(k, 2u * i + 1u, position)), KEY_F16);
  write2(value_at(list, slot), i, vec2<f32>(kv[v], kv[v + 1u]), VALUE_F16);
  if (i == 0u) {
    arena[position_at(list, slot)] = position;
  }
}
