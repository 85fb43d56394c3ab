// Recipes: sums of a chunk's queries before RoPE and of their products, less the first query, so that no large mean hides a
// small variance (Expected Attention, Devoto et al., 2025). The first positions are left out.
//
// Shapes: q [chunk rows][heads·dim]; rope [position][rot/2][2]; spread [heads]: first query [dim], sums [dim] and, with
// covariance, sums of products [dim][dim].
// Grid: x, y over the heads' pairs of channels, or with covariance over two pairs: four products a row of queries.
struct Params {
  heads: u32,
  kv_heads: u32,
  dim: u32,
  rot: u32,
  neox: u32,
  sinks: u32,      // positions that are left out
  covariance: u32, // 1: products too
}

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> session: array<u32>;
@group(0) @binding(3) var<storage, read> q: array<f32>;
@group(0) @binding(12) var<storage, read> rope: array<f32>;
@group(0) @binding(13) var<storage, read_write> spread: array<f32>;

//!include lib/session.wgsl
//!include lib/grid.wgsl
//!include lib/tokens.wgsl
//!include lib/rotate.wgsl

// Pair i of channels of row t, turned back to before RoPE.
fn unrotated(t: u32, h: u32, i: u32) -> vec2<f32> {
  let at = (t * p.heads + h) * p.dim;
  let channels = pair_of(i);
  let v = vec2<f32>(q[at + channels.x], q[at + channels.y]);
  if (i >= p.rot / 2u) {
    return v;
  }
  let turn = (session[POS] + t) * p.rot + 2u * i;
  let c = rope[turn];
  let s = rope[turn + 1u];
  return vec2<f32>(v.x * c + v.y * s, v.y * c - v.x * s);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let pairs = p.dim / 2u;
  let others = select(1u, pairs, p.covariance == 1u);
  let j = n % others;
  let i = n / others % pairs;
  let h = n / others / pairs;
  let skip = max(p.sinks, session[POS]) - session[POS];
  if (h >= p.heads || skip >= session[ROWS]) {
    return;
  }
  let at = h * p.dim * (2u + p.covariance * p.dim);
  let begin = tokens[SEEN] == 0u;
  let a = pair_of(i);
  let b = pair_of(j);
  var first = vec4<f32>(spread[at + a.x], spread[at + a.y], spread[at + b.x], spread[at + b.y]);
  if (begin) {
    first = vec4<f32>(unrotated(skip, h, i), unrotated(skip, h, j));
  }
  var sum = vec2<f32>(0.0, 0.0);
  var products = vec4<f32>(0.0, 0.0, 0.0, 0.0);
  for (var t = skip; t < session[ROWS]; t++) {
    let x = unrotated(t, h, i) - first.xy;
    let y = unrotated(t, h, j) - first.zw;
    sum += x;
    products += x.xxyy * y.xyxy;
  }
  if (j == 0u) {
    add(at + p.dim + a.x, sum.x, begin);
    add(at + p.dim + a.y, sum.y, begin);
    if (begin) {
      spread[at + a.x] = first.x;
      spread[at + a.y] = first.y;
    }
  }
  if (p.covariance == 1u) {
    let cell = at + 2u * p.dim;
    add(cell + a.x * p.dim + b.x, products.x, begin);
    add(cell + a.x * p.dim + b.y, products.y, begin);
    add(cell + a.y * p.dim + b.x, products.z, begin);
    add(cell + a.y * p.dim + b.y, products.w, begin);
  }
}

fn add(at: u32, x: f32, begin: bool) {
  spread[at] = x + select(spread[at], 0.0, begin);
}
