// Keys and values go to scratch: both [prompt rows][kv_heads·dim], values VALUES_AT floats behind the keys.
@group(0) @binding(8) var<storage, read_write> kv: array<f32>;

fn put(v: vec2<f32>, h: u32, i: u32, t: u32) {
  let channels = pair_of(i);
  if (h < p.heads) {
    let at = (t * p.heads + h) * p.dim;
    q[at + channels.x] = v.x;
    q[at + channels.y] = v.y;
    return;
  }
  var g = h - p.heads;
  var at = 0u;
  if (g >= p.kv_heads) {
    g -= p.kv_heads;
    at = session[VALUES_AT];
  }
  at += ((session[FROM] + t) * p.kv_heads + g) * p.dim;
  kv[at + channels.x] = v.x;
  kv[at + channels.y] = v.y;
}
