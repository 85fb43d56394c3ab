// Recipes: sums of a chunk's queries before RoPE and of their products, less the first query, so that no large mean hides a
// small variance (Expected Attention, Devoto et al., 2025). The first positions are left out.
//
// Shapes: q [chunk rows][heads·dim]; rope [position][rot/2][2]; spread [heads]: first query [dim], sums [dim] and, with
// covariance, sums of products [dim][dim].
// Grid: x, y over the channels, or pairs of channels, of the heads.
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

// Channel c of row t, turned back to before RoPE.
fn unrotated(t: u32, h: u32, c: u32) -> f32 {
  let at = (t * p.heads + h) * p.dim;
  if (c >= p.rot) {
    return q[at + c];
  }
  var i = c / 2u; // pair
  var partner = c ^ 1u;
  var second = c % 2u == 1u;
  if (p.neox == 1u) {
    i = c % (p.rot / 2u);
    second = c != i;
    partner = select(c + p.rot / 2u, i, second);
  }
  let turn = (session[POS] + t) * p.rot + 2u * i;
  let sine = q[at + partner] * rope[turn + 1u];
  return q[at + c] * rope[turn] + select(sine, -sine, second);
}

@compute @workgroup_size(GROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let n = thread(id, groups);
  let columns = select(1u, p.dim, p.covariance == 1u);
  let d = n % columns;
  let c = n / columns % p.dim;
  let h = n / columns / p.dim;
  let skip = max(p.sinks, session[POS]) - session[POS];
  if (h >= p.heads || skip >= session[ROWS]) {
    return;
  }
  let at = h * p.dim * (2u + p.covariance * p.dim);
  let begin = tokens[SEEN] == 0u;
  var first = vec2<f32>(spread[at + c], spread[at + d]);
  var sum = spread[at + p.dim + c];
  var product = 0.0;
  if (begin) {
    first = vec2<f32>(unrotated(skip, h, c), unrotated(skip, h, d));
    sum = 0.0;
  }
  for (var t = skip; t < session[ROWS]; t++) {
    let x = unrotated(t, h, c) - first.x;
    sum += x;
    product += x * (unrotated(t, h, d) - first.y);
  }
  if (d == 0u) {
    spread[at + p.dim + c] = sum;
    if (begin) {
      spread[at + c] = first.x;
    }
  }
  if (p.covariance == 1u) {
    let cell = at + (2u + c) * p.dim + d;
    spread[cell] = product + select(spread[cell], 0.0, begin);
  }
}
