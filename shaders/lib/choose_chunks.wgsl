// Chooses whole chunks by their mean worth, and of the one that does not fit the best tokens (ChunkKV). What is chosen
// before counts as the highest worth and 1. Keys of chunks lie where kept ones will.
var<workgroup> open: vec2<u32>; // the chunk that does not fit, and how many of its tokens do
var<workgroup> tops: array<f32, GROUP>;
var<private> in_chunks: bool;

fn key_of(i: u32) -> u32 {
  if (in_chunks) {
    return kept[row + i];
  }
  return ordered(worth[row + i]);
}

// A chunk weighs as many tokens as are left to choose in it.
fn weight_of(i: u32) -> u32 {
  if (in_chunks) {
    var left = 0u;
    for (var j = i * p.chunk; j < min((i + 1u) * p.chunk, end); j++) {
      left += select(0u, 1u, stays[row + j] == 0u);
    }
    return left;
  }
  return select(0u, 1u, stays[row + i] == 0u && i / p.chunk == open.x);
}

fn choose(lane: u32, list: u32, n: u32, left: u32) {
  var top = worth[row];
  for (var i = begin; i < end; i++) {
    top = max(top, worth[row + i]);
  }
  tops[lane] = top;
  if (lane == 0u) {
    open = vec2<u32>(NONE, 0u);
  }
  workgroupBarrier();
  for (var i = 0u; i < GROUP; i++) {
    top = max(top, tops[i]);
  }
  let start = (begin + p.chunk - 1u) / p.chunk; // lanes without candidates begin at the end of the last chunk
  let to = (end + p.chunk - 1u) / p.chunk;
  for (var c = start; c < to; c++) {
    let last = min((c + 1u) * p.chunk, end);
    var sum = 0.0;
    for (var i = c * p.chunk; i < last; i++) {
      sum += select(top + 1.0, worth[row + i], stays[row + i] == 0u);
    }
    kept[row + c] = ordered(sum / f32(last - c * p.chunk));
  }
  in_chunks = true;
  let found = cut(lane, start, to, left);
  var ties = 0u;
  for (var c = start; c < to; c++) {
    ties += select(0u, weight_of(c), kept[row + c] == found.key);
  }
  var tie = before(lane, ties);
  for (var c = start; c < to; c++) {
    let tokens = weight_of(c);
    let tied = kept[row + c] == found.key;
    if (kept[row + c] > found.key || (tied && tie + tokens <= found.ties)) {
      for (var i = c * p.chunk; i < min((c + 1u) * p.chunk, end); i++) {
        stays[row + i] = 1u;
      }
    } else if (tied && tie < found.ties) {
      open = vec2<u32>(c, found.ties - tie);
    }
    tie += select(0u, tokens, tied);
  }
  workgroupBarrier();
  in_chunks = false;
  take(lane, open.y);
}
